const form = /^#sign-in=([\w-]{1,512})$/;

let code = form.exec(location.hash)?.[1];
// The code must not stay in the address bar or in the history.
if (code !== undefined) history.replaceState(history.state, "", location.pathname + location.search);

// A link that is opened in a tab of the console changes only what follows the #, so the page would not notice.
addEventListener("hashchange", () => {
  if (form.test(location.hash)) location.reload();
});

/** Returns the code of a sign-in link once; undefined: the page was not opened by such a link. */
export function takeSignInCode(): string | undefined {
  const taken = code;
  code = undefined;
  return taken;
}
