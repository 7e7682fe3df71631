/** The page that the user wanted before the sign-in. The identity provider always returns to the front page. */
const leftKey = "pierhead.left";

export function leaveForSignIn(): void {
  sessionStorage.setItem(leftKey, location.pathname + location.search);
}

/** Returns to that page. Must run before the router reads the address. */
export function returnToLeft(): void {
  const left = sessionStorage.getItem(leftKey);
  if (left === null) return;
  const { pathname } = new URL(document.baseURI);
  // Any other address means that the user came back another way and is already at the right page.
  if (location.pathname === pathname) history.replaceState(null, "", left);
  sessionStorage.removeItem(leftKey);
}
