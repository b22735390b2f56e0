// The files of a page without a server: which there are, and how much of them has been loaded.

const place = (name) => new URL(name, document.baseURI);
let listed = null; // what games.json says

/** The games of the page and the sizes of all files. */
export async function games() {
  listed ??= await (await fetch(place("games.json"))).json();
  return listed;
}

/** Load files, by name and size in bytes, as a map to their contents; `report` is given the share that is there. */
export async function load(files, report) {
  const total = Object.values(files).reduce((sum, size) => sum + size, 0);
  let there = 0;
  const one = async (name) => {
    const response = await fetch(place(name));
    if (!response.ok) throw new Error(`${name}: ${response.status}`);
    const parts = [];
    for (const reader = response.body.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      report(Math.min(1, (there += value.length) / total));
    }
    return [name, new Uint8Array(await new Blob(parts).arrayBuffer())];
  };
  return Object.fromEntries(await Promise.all(Object.keys(files).map(one)));
}

export async function unzipped(data) {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reload once with the headers that give a page threads; where that is not possible, one thread must do. */
export async function isolate() {
  if (globalThis.crossOriginIsolated || !globalThis.isSecureContext || !navigator.serviceWorker) return;
  try {
    if (sessionStorage.getItem("isolated")) return;
    sessionStorage.setItem("isolated", "tried");
    await navigator.serviceWorker.register(place("isolate.js"));
    await navigator.serviceWorker.ready;
    location.reload();
    await new Promise(() => {}); // nothing more happens here
  } catch {} // no storage or no worker: stay
}
