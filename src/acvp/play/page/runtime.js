// onnxruntime-web: on the GPU where the browser has WebGPU and it is faster, otherwise on the processor.

const RUNTIMES = {
  wasm: { module: "ort.wasm.min.mjs", binary: "ort-wasm-simd-threaded.wasm" },
  webgpu: { module: "ort.jspi.min.mjs", binary: "ort-wasm-simd-threaded.jspi.wasm" }, // the smallest with WebGPU
};
const TRIED = 4; // steps in which both are compared; the first one, which compiles, is not timed
const ERRORS = 3; // are logged; not that some operations are left to the processor
const CLOSE = 1; // of 255, by which pixels of both may differ

/** "webgpu" where there is a GPU and WebAssembly can wait for it, otherwise "wasm". */
export async function kindOfRuntime() {
  try {
    return "Suspending" in WebAssembly && (await navigator.gpu?.requestAdapter()) ? "webgpu" : "wasm";
  } catch {
    return "wasm";
  }
}

/** The file of a runtime that takes long to load. */
export const binaryOf = (kind) => RUNTIMES[kind].binary;

export async function startRuntime(kind, binary) {
  const ort = await import(new URL(`ort/${RUNTIMES[kind].module}`, document.baseURI));
  ort.env.wasm.wasmPaths = new URL("ort/", document.baseURI).href;
  ort.env.wasm.wasmBinary = binary.buffer;
  ort.env.wasm.numThreads = globalThis.crossOriginIsolated ? Math.min(4, Math.max(1, navigator.hardwareConcurrency)) : 1;
  return ort;
}

/** A graph on the GPU, null unless that is faster and gives the same frames, and a word for why; `run(graph, step)` gives a frame. */
export async function fasterOnGpu(ort, data, processor, run) {
  try {
    const gpu = await ort.InferenceSession.create(data, { executionProviders: ["webgpu", "wasm"], logSeverityLevel: ERRORS });
    const times = { gpu: 0, processor: 0 };
    const timed = async (name, graph, step) => {
      const started = performance.now();
      const frame = await run(graph, step);
      if (step) times[name] += performance.now() - started;
      return frame;
    };
    for (let step = 0; step < TRIED; step += 1) {
      const frame = await timed("gpu", gpu, step);
      const expected = await timed("processor", processor, step);
      if (expected.some((value, index) => Math.abs(value - frame[index]) > CLOSE)) return [null, "differs"];
    }
    return times.gpu < times.processor ? [gpu, "used"] : [null, "slower"];
  } catch {
    return [null, "fails"]; // what a GPU cannot do, the processor can
  }
}
