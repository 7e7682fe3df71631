import { QueryClient } from "@tanstack/react-query";
import { type Client, createClient } from "../../src/client/client.ts";
import { ApiFailure } from "../../src/client/failure.ts";
import { consoleHeader } from "../../src/contract/administration/session.ts";

/** Address of the API: the address of this page with the prefix of a proxy, if any, and no slash at the end. */
export const baseUrl = document.baseURI.replace(/\/+$/, "");

/** Path of that address in the router's form. */
export const basePath = new URL(document.baseURI).pathname;

/** Called when the server no longer accepts the session. */
let onSignedOut = () => {};
export const whenSignedOut = (then: () => void) => {
  onSignedOut = then;
};
export const endSignedOut = () => onSignedOut();

/** Sends the session cookie, and a header that proves the request comes from this page: other origins cannot send it. */
const fetchAsConsole: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers);
  headers.set(consoleHeader, "1");
  const answer = await fetch(input, { ...init, headers, credentials: "same-origin" });
  if (answer.status === 401 && !String(input).endsWith("/v2/session")) onSignedOut();
  return answer;
};

/** Creates a client for a workspace. `workspaceId` null: the workspace of the key. */
export function clientOf(workspaceId: string | null): Client {
  return createClient({ baseUrl, fetch: fetchAsConsole, workspaceId: workspaceId ?? undefined });
}

/** The cached queries. Events refresh them, and a refetch when the window gets the focus covers missed events. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: 5_000, refetchOnWindowFocus: true },
  },
});

/** Returns the reason of a check that rejects a value, for the user; null: it accepts the value. */
export function problemFrom(check: () => void): string | null {
  try {
    check();
    return null;
  } catch (error) {
    return textOf(error);
  }
}

/** Returns the text of any thrown value for the user. */
export function textOf(error: unknown): string {
  if (error instanceof ApiFailure) return error.detail;
  return error instanceof Error ? error.message : String(error);
}
