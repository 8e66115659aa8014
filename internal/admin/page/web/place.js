// The place in the page is the URL's hash, so that the back button works and a place can be bookmarked.

const names = ["view", "node", "vf", "q", "word", "only", "sort"];

// readPlace returns the place that the URL names: view (loudest, plan, find), node, vf, the words of a
// search (q), and the filter of the list of nodes (word, only, sort).
export function readPlace() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(names.filter((name) => given.get(name)).map((name) => [name, given.get(name)]));
}

// linkTo returns the hash of a place.
export function linkTo(place) {
  const set = names.filter((name) => place[name]).map((name) => [name, place[name]]);
  return "#" + new URLSearchParams(set);
}

// goTo makes a place the present one, as a new step of the browser's history.
export function goTo(place) {
  location.hash = linkTo(place);
}

// replacePlace changes the present place without a new step.
export function replacePlace(place) {
  history.replaceState(null, "", linkTo(place));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
