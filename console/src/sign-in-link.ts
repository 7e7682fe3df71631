const form = /^#sign-in=([\w-]{1,512})$/;

let code = form.exec(location.hash)?.[1];
// The code must not stay in the address bar or in the history.
if (code !== undefined) history.replaceState(history.state, "", location.pathname + location.search);

/** Returns the code of a sign-in link once; undefined: the page was not opened by such a link. */
export function takeSignInCode(): string | undefined {
  const taken = code;
  code = undefined;
  return taken;
}
