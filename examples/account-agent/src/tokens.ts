/**
 * Asks the control plane for a user's token. Two HTTP calls, written out: they are the same in every language.
 *
 * `PIERHEAD_URL` is set for every agent; `PIERHEAD_API_KEY` is a variable of the deployment, a key of the role `agent`.
 */

export interface Asked {
  provider: string;
  scopes: string[];
  /** Whose token, as the application in front of this agent names its users. */
  user: string;
}

/** The token, or where the user consents and what to wait for meanwhile. */
export type Answer = { token: string } | { token: null; signInUrl: string; waitFor: string };

/** @throws Error when the control plane refuses, in its words. */
export async function askForToken({ provider, scopes, user }: Asked): Promise<Answer> {
  const answer = await call("POST", "/v2/auth/authenticate", { provider, scopes, user_id: user });
  if (answer.status === "completed") return { token: answer.token as string };
  return { token: null, signInUrl: answer.url as string, waitFor: answer.auth_id as string };
}

/**
 * Waits until the user has consented.
 * @throws Error when the user denied, or did not come within `seconds`.
 */
export async function waitForToken(waitFor: string, seconds = 300): Promise<string> {
  const { status, token } = await call("GET", `/v2/auth/wait/${waitFor}?timeout=${seconds}`);
  if (status === "completed") return token as string;
  throw new Error(status === "timeout" ? "you have not signed in yet" : "the sign-in was refused, or has expired");
}

async function call(method: string, path: string, body?: object): Promise<Record<string, string | null>> {
  const { PIERHEAD_URL, PIERHEAD_API_KEY } = process.env;
  const response = await fetch(PIERHEAD_URL + path, {
    method,
    headers: { "x-api-key": PIERHEAD_API_KEY ?? "", "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(JSON.stringify(answer.detail));
  return answer;
}
