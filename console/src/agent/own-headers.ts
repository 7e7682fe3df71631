import { agentHeaderPrefix } from "../../../src/contract/administration/session.ts";

/** Headers for agents with their own authentication, by deployment. They are credentials, so only the memory of the page has them. */
const given = new Map<string, ReadonlyMap<string, string>>();

export const headersOf = (deploymentId: string): ReadonlyMap<string, string> => given.get(deploymentId) ?? new Map();

export function keepHeaders(deploymentId: string, headers: ReadonlyMap<string, string>): void {
  if (headers.size === 0) given.delete(deploymentId);
  else given.set(deploymentId, headers);
}

/** Forgets the credentials of a user, at the end of the session. */
export const forgetHeaders = (): void => given.clear();

/** Returns the headers with the prefix that the server removes before it forwards them. */
export const sentHeaders = (deploymentId: string): Record<string, string> =>
  Object.fromEntries([...headersOf(deploymentId)].map(([name, value]) => [agentHeaderPrefix + name, value]));

/** Reads lines such as `Authorization: Bearer KEY`. */
export function readHeaders(text: string): { headers: Map<string, string> } | { problem: string } {
  const headers = new Map<string, string>();
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const [, name, value] = /^\s*([\w!#$%&'*+.^`|~-]+)\s*:\s*([\x20-\x7e\x80-\xff]*?)\s*$/.exec(line) ?? [];
    if (name === undefined || value === undefined || value === "")
      return { problem: `"${line.trim().slice(0, 20)}" is not a header. Write a name, a colon and a value.` };
    headers.set(name.toLowerCase(), value);
  }
  return { headers };
}
