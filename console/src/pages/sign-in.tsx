import { useMutation, useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { isRefusal } from "../../../src/client/client.ts";
import type { Session } from "../../../src/contract/administration/session.ts";
import { Harbour } from "../parts/harbour.tsx";
import { Mark } from "../parts/mark.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { leaveForSignIn } from "../return-to.ts";
import { clientOf, textOf } from "../server.ts";
import { takeSignInCode } from "../sign-in-link.ts";

/** The user types a key once. From then on a cookie that no script can read replaces it. */
export function SignInPage({ onSignedIn }: { onSignedIn: (session: Session) => void }) {
  const [code] = useState(takeSignInCode);
  const field = useId();
  const [key, setKey] = useState("");
  const signIn = useMutation({
    mutationFn: () => clientOf(null).createSession({ body: { api_key: key.trim() } }),
    onSuccess: onSignedIn,
  });
  const byLink = useMutation({
    mutationFn: () => clientOf(null).createSession({ body: { api_key: code ?? "" } }),
    onSuccess: onSignedIn,
  });
  const info = useQuery({ queryKey: ["info"], queryFn: () => clientOf(null).getInfo() });
  const provider = info.data?.sign_in;
  usePageTitle("Sign in");
  return (
    <main className="sign-in">
      <section className="sign-panel">
        <div className="sign-brand">
          <Mark size={30} /> Pierhead
        </div>
        <div className="sign-form">
          <div>
            <h1>Sign in</h1>
            <p className="soft">to the console of {location.host}</p>
          </div>
          {/* A click, because a page elsewhere could lead here with a link of its own key. */}
          {code !== undefined && !byLink.isError && (
            <>
              <button
                // biome-ignore lint/a11y/noAutofocus: the link leads to this button.
                autoFocus
                type="button"
                className="primary"
                disabled={byLink.isPending}
                onClick={() => byLink.mutate()}
              >
                Sign in with this link
              </button>
              <p className="or">or with an API key</p>
            </>
          )}
          {byLink.isError && (
            <p role="alert" className="bad-text">
              {isRefusal(byLink.error, "invalidToken") ? (
                <>
                  This link was used before, or is older than ten minutes. <code>npx pierhead open</code> makes a new
                  one.
                </>
              ) : (
                textOf(byLink.error)
              )}
            </p>
          )}
          {provider && (
            <>
              <a className="button primary" href={provider.url} onClick={leaveForSignIn}>
                Sign in with {provider.name}
              </a>
              <p className="or">or with an API key</p>
            </>
          )}
          <form
            onSubmit={(event) => {
              event.preventDefault();
              signIn.mutate();
            }}
          >
            <div className="field">
              <label htmlFor={field}>API key</label>
              <input
                // biome-ignore lint/a11y/noAutofocus: the page has one field, and users come here to fill it.
                autoFocus={code === undefined}
                id={field}
                type="password"
                name="api-key"
                autoComplete="off"
                spellCheck={false}
                value={key}
                onChange={(event) => setKey(event.target.value)}
                placeholder="ph_…"
                aria-invalid={signIn.isError || undefined}
                aria-describedby={`${field}-hint`}
                required
              />
              {signIn.isError ? (
                <small id={`${field}-hint`} role="alert" className="bad-text">
                  {isRefusal(signIn.error, "invalidToken")
                    ? "This API key is not valid. Check the key and try again."
                    : textOf(signIn.error)}
                </small>
              ) : (
                <small id={`${field}-hint`}>
                  On the server's machine, <code>npx pierhead open</code> prints a link for which you need no key.
                  Elsewhere, ask an administrator for a key: <code>npx pierhead admin keys create</code>.
                </small>
              )}
            </div>
            <button
              type="submit"
              className={provider || code !== undefined ? "" : "primary"}
              disabled={key.trim() === "" || signIn.isPending}
            >
              Sign in
            </button>
          </form>
        </div>
      </section>
      <aside className="sign-art">
        <Harbour />
        <div>
          <p>Bring your agents in.</p>
          <p>Build them, run them, watch them, on your own servers.</p>
        </div>
      </aside>
    </main>
  );
}
