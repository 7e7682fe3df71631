import { QueryClient } from "@tanstack/react-query";
import { type Client, createClient } from "../../src/client/client.ts";
import { ApiFailure } from "../../src/client/failure.ts";
import { consoleHeader } from "../../src/contract/administration/session.ts";

/** Address of the API: where this page lies, with the prefix of a proxy if there is one; no slash at its end. */
export const baseUrl = document.baseURI.replace(/\/+$/, "");

/** Path of that address, as the router wants it. */
export const basePath = new URL(document.baseURI).pathname;

/** Told when the server no longer knows who is asking. */
let onSignedOut = () => {};
export const whenSignedOut = (then: () => void) => {
  onSignedOut = then;
};

/** The cookie says who is asking; the header, which pages of other origins cannot send, that it was this page. */
const fetchAsConsole: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers);
  headers.set(consoleHeader, "1");
  const answer = await fetch(input, { ...init, headers, credentials: "same-origin" });
  if (answer.status === 401 && !String(input).endsWith("/v2/session")) onSignedOut();
  return answer;
};

/** `workspaceId`: where to act; null: where the key says by itself. */
export function clientOf(workspaceId: string | null): Client {
  return createClient({ baseUrl, fetch: fetchAsConsole, workspaceId: workspaceId ?? undefined });
}

/** Lists are renewed by events; what they miss is found again by looking when the window is looked at. */
export const queries = new QueryClient({
  defaultOptions: {
    queries: { retry: false, staleTime: 5_000, refetchOnWindowFocus: true },
  },
});

/** What a person should read of anything that was thrown. */
export function textOf(error: unknown): string {
  if (error instanceof ApiFailure) return error.detail;
  return error instanceof Error ? error.message : String(error);
}
