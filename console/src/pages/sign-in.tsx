import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Session } from "../../../src/contract/administration/session.ts";
import { leaveForSignIn } from "../return-to.ts";
import { clientOf, textOf } from "../server.ts";

/** The user types a key once. From then on a cookie that no script can read replaces it. */
export function SignInPage({ onSignedIn }: { onSignedIn: (session: Session) => void }) {
  const [key, setKey] = useState("");
  const signIn = useMutation({
    mutationFn: () => clientOf(null).createSession({ body: { api_key: key.trim() } }),
    onSuccess: onSignedIn,
  });
  const info = useQuery({ queryKey: ["info"], queryFn: () => clientOf(null).getInfo() });
  const provider = info.data?.sign_in;
  return (
    <main className="sign-in">
      <h1>Pierhead</h1>
      {provider && (
        <p>
          <a className="button primary wide" href={provider.url} onClick={leaveForSignIn}>
            Sign in with {provider.name}
          </a>
        </p>
      )}
      <form
        className="card"
        onSubmit={(event) => {
          event.preventDefault();
          signIn.mutate();
        }}
      >
        <label className="field">
          <span>API key</span>
          <input
            type="password"
            name="api-key"
            autoComplete="off"
            spellCheck={false}
            value={key}
            onChange={(event) => setKey(event.target.value)}
            placeholder="ph_…"
            required
          />
        </label>
        {signIn.isError && (
          <p role="alert" className="bad-text">
            {textOf(signIn.error) === "Invalid token"
              ? "This API key is not valid. Check the key and try again."
              : textOf(signIn.error)}
          </p>
        )}
        <button type="submit" className={provider ? "" : "primary"} disabled={key.trim() === "" || signIn.isPending}>
          Sign in
        </button>
      </form>
      <p className="soft">
        On its first start the server prints an admin key and saves it in <code>~/.pierhead/credentials.json</code>.
        Create more keys with <code>npx pierhead admin keys create</code>.
      </p>
    </main>
  );
}
