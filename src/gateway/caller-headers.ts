/** The headers that hold a key or a token, in the order in which the control plane looks for one (contract 1.2). */
export const keyHeaders = ["x-api-key", "authorization", "x-service-key"] as const;
export type KeyHeader = (typeof keyHeaders)[number];

/** Holds the assertion about the caller. An agent may believe it, because clients cannot send it. */
export const callerHeader = "x-pierhead-caller";

/** A caller that was admitted by its credential, or without one: health checks and CORS preflights. */
export interface AdmittedCaller {
  /** The credential that was checked. Null: none was. */
  checked: { header: KeyHeader; secret: string } | null;
  /** The control plane's signed statement about the caller for this deployment. Null: there is none. */
  assertion: string | null;
}

/** Returns the credential that the control plane checks, or null if the headers contain none. */
export function credentialIn(headers: Record<string, string | string[] | undefined>): AdmittedCaller["checked"] {
  for (const header of keyHeaders) {
    const text = headers[header]?.toString() ?? "";
    const secret = (header === "authorization" ? (/^bearer +(.*)$/i.exec(text)?.[1] ?? "") : text).trim();
    if (secret !== "") return { header, secret };
  }
  return null;
}

export const isKeyHeader = (lower: string): lower is KeyHeader => (keyHeaders as readonly string[]).includes(lower);

/**
 * Whether an agent may see the value of a key header. It must not see the credential that was checked, in any header, nor
 * another one of Pierhead. Credentials of the agent's own are none of the gateway's business and pass.
 */
export function mayAgentSee(header: KeyHeader, value: string, { checked }: AdmittedCaller): boolean {
  if (checked === null || header === "x-service-key" || header === checked.header) return false;
  return !value.includes(checked.secret) && !isOwnKey(value);
}

/** Returns whether a value contains a key or a session of Pierhead, which no agent may see. */
export const isOwnKey = (value: string): boolean => ownKey.test(value);

const ownKey = /\bph_[0-9a-f]{12}_|\bphs_[\w-]{43}/;

/**
 * Returns the headers that tell an agent who calls. The assertion also takes the place of the credential, because agent servers
 * that ask the control plane about their callers send it those headers (contract 7.4).
 */
export function headersAboutCaller({ checked, assertion }: AdmittedCaller): string[] {
  if (checked === null || assertion === null) return [];
  const inPlace =
    checked.header === "authorization" ? ["authorization", `Bearer ${assertion}`] : ["x-api-key", assertion];
  return [...inPlace, callerHeader, assertion];
}
