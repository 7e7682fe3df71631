/** The host name that a server requires. */
export interface LocalHost {
  /** Value of the Host header; `*` stands for the port. */
  host: string;
  /** Whether only requests whose path the gateway shortened get it, because the server asks itself by the name in the request. */
  isForPathsOnly: boolean;
}

/**
 * Returns the name that a server of the MCP answers to, if the protection of the SDK against DNS rebinding refuses all names but
 * those of this machine. The gateway is such a protection already: it routes only names that the operator configured.
 * @returns null if it answers to any name, or its author listed other names.
 */
export function localHostOf(texts: readonly string[]): LocalHost | null {
  const host = texts.map(hostIn).find((one) => one !== null) ?? null;
  return host === null ? null : { host, isForPathsOnly: false };
}

/** The functions of the SDK that make an application, with their options. */
const application = /\bcreateMcp(?:Express|Hono|Fastify)App\(\s{0,20}(?:\{([^{}]{0,500})\}\s{0,20})?\)/g;

const validation = /\blocalhostHostValidation\(\s*\)/;
const listOfHosts = /\ballowedHosts\s*:\s*\[([^[\]]{0,500})\]/;
const listsHosts = /\ballowedHosts\b/;

function hostIn(text: string): string | null {
  if (validation.test(text)) return "localhost";
  for (const [, options = ""] of text.matchAll(application))
    if (!listsHosts.test(options) && !/\bhost\s*:\s*["'`](?:0\.0\.0\.0|::)["'`]/.test(options)) return "localhost";
  const listed = /\benableDnsRebindingProtection\s*:\s*true\b/.test(text) ? listOfHosts.exec(text)?.[1] : undefined;
  const names = [...(listed ?? "").matchAll(/["'`]([^"'`]{1,100})["'`]/g)].map(([, name = ""]) =>
    name.replaceAll(/\$\{[^{}]{0,100}\}/g, "*"),
  );
  const areLocal = names.every((name) => /^(?:localhost|127\.0\.0\.1|\[::1\])(?::(?:\d+|\*))?$/.test(name));
  return areLocal ? (names[0] ?? null) : null;
}
