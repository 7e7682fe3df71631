/** What a link led to while nobody was signed in: the way by the identity provider ends at the front page. */
const leftKey = "pierhead.left";

export function leaveForSignIn(): void {
  sessionStorage.setItem(leftKey, location.pathname + location.search);
}

/** Back to there; called before the router looks where it is. */
export function returnToLeft(): void {
  const left = sessionStorage.getItem(leftKey);
  if (left === null) return;
  const { pathname } = new URL(document.baseURI);
  // Whoever came back another way is where they want to be.
  if (location.pathname === pathname) history.replaceState(null, "", left);
  sessionStorage.removeItem(leftKey);
}
