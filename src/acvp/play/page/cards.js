// The start page: a card for each predictor, with a loop of real | dream: a file, or made by the server when first asked.

const ASK_AGAIN = 700; // milliseconds

const SPELLED = { Qbert: "Q*bert" };

/** "ALE/MsPacman-v5" as people say it; null where nothing is known of the game. */
export function title(game) {
  const name = game?.match(/([^/:]+?)(-v\d+)?$/)?.[1] ?? "";
  return SPELLED[name] ?? (name.replaceAll("_", " ").replaceAll(/([a-z])([A-Z])/g, "$1 $2") || null);
}

/** The first predictor of every game, and the others; one of an unknown game counts as a separate game. */
export function firstOfGames(known) {
  const isFirst = ({ game }, index) => !game || known.findIndex((other) => other.game === game) === index;
  return [known.filter(isFirst), known.filter((one, index) => !isFirst(one, index))];
}

/** A button with the loop, the game and the name of a predictor. */
export function card(name, game, onChoose) {
  const button = document.createElement("button");
  const picture = document.createElement("div");
  const caption = document.createElement("span");
  const own = document.createElement("small");
  picture.className = "loop";
  caption.textContent = title(game) ?? name;
  own.textContent = title(game) ? `predictor ${name}` : "";
  button.append(picture, caption, own);
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
  const shown = matchMedia("(prefers-reduced-motion: reduce)").matches ? still(image) : image;
  if (image.naturalWidth > picture.clientWidth) shown.className = "larger"; // than it is shown: every pixel counts
  picture.replaceChildren(shown);
}

/** The first frame alone, for those who prefer that nothing moves. */
function still(image) {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas;
}
