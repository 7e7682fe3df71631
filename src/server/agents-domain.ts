/** A domain whose names serve the agents alone, so that their pages share no cookies and no origin with the console. */
export interface AgentsDomain {
  /** Lower case, without a port: `agents.example.net`. */
  domain: string;
  /** Address of each agent, with the scheme and port of the public address: `https://{slug}.agents.example.net`. */
  urlTemplate: string;
}

const nameOf = /^(?=.{1,190}$)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/;

/**
 * Reads `PIERHEAD_AGENTS_DOMAIN`.
 * @throws Error if it is not a domain name, if there is no public address to take the scheme from, or if the console's own
 * host lies in it: an agent may set cookies for every name of its domain.
 */
export function readAgentsDomain(given: string | undefined, publicUrl: string | undefined): AgentsDomain | null {
  if (given === undefined) return null;
  const domain = given.toLowerCase().replace(/\.$/, "");
  if (!nameOf.test(domain)) {
    throw new Error(`PIERHEAD_AGENTS_DOMAIN must be a domain name such as agents.example.net, got "${given}"`);
  }
  if (publicUrl === undefined) {
    throw new Error(
      "PIERHEAD_AGENTS_DOMAIN needs PIERHEAD_PUBLIC_URL: the agents' addresses take their scheme and port from it",
    );
  }
  const { protocol, hostname, port } = new URL(publicUrl);
  if (hostname === domain || hostname.endsWith(`.${domain}`)) {
    throw new Error(
      `PIERHEAD_AGENTS_DOMAIN must not contain the host of PIERHEAD_PUBLIC_URL, because an agent could set cookies for it: got "${given}" and "${publicUrl}"`,
    );
  }
  return { domain, urlTemplate: `${protocol}//{slug}.${domain}${port === "" ? "" : `:${port}`}` };
}

/** Returns the addresses with TLS at which users reach this server and its agents. */
export function tlsAddresses({
  publicUrl,
  agentsDomain,
}: {
  publicUrl?: string | undefined;
  agentsDomain: AgentsDomain | null;
}): string[] {
  // Any name of the agents' domain answers with the certificate for all of them.
  const agentUrl = agentsDomain?.urlTemplate.replace("{slug}", "certificate");
  return [publicUrl, agentUrl].filter((address) => address?.startsWith("https:") === true) as string[];
}
