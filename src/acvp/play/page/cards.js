// The start page: a card for each predictor, with a loop of real | dream: a file, or made by the server when first asked.

const ASK_AGAIN = 700; // milliseconds

/** A button with the loop and the name of a predictor. */
export function card(name, onChoose) {
  const button = document.createElement("button");
  const picture = document.createElement("div");
  const caption = document.createElement("span");
  picture.className = "loop";
  caption.textContent = name.replaceAll("_", " ");
  button.append(picture, caption);
  button.addEventListener("click", onChoose);
  show(name, picture);
  return button;
}

/** Show a loop as soon as it is made, for as long as its card is on the page. */
async function show(name, picture) {
  const file = encodeURIComponent(name);
  const address = document.documentElement.dataset.source === "server" ? `loops/${file}` : `${file}/loop.gif`;
  let answer = await fetch(address);
  while (answer.status === 202) {
    await new Promise((done) => setTimeout(done, ASK_AGAIN));
    if (!picture.isConnected || document.body.matches(":not(.choosing)")) return;
    answer = await fetch(address);
  }
  if (!answer.ok) return;
  const image = new Image();
  image.alt = "";
  image.src = address; // the page's security policy allows images of this server only
  await image.decode();
  picture.replaceChildren(matchMedia("(prefers-reduced-motion: reduce)").matches ? still(image) : image);
}

/** The first frame alone, for those who prefer that nothing moves. */
function still(image) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas;
}
