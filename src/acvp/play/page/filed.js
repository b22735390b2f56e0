// A browser runs no module of a page that was opened as a file: this is none, and says what to do instead.

if (location.protocol === "file:") {
  document.body.className = "filed";
  document.getElementById("filed").hidden = false;
}
