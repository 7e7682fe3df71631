import { isIP } from "node:net";
import { isLoopbackAddress } from "./outbound-address.ts";

export interface MailSettings {
  /** `smtp://user:password@host:587`, or `smtps:` for TLS from the first byte. */
  url: string;
  from: string;
  /** Domains of recipients; `*`: any. */
  domains: readonly string[];
  /** Certificates to trust instead of the system's, as PEM. */
  ca?: string;
}

export interface Mail {
  to: string;
  subject: string;
  text: string;
  messageId: string;
  /** Message that this one continues. */
  inReplyTo: string | null;
}

/** What the SMTP server said. Codes from 200 to 299 are success (RFC 5321, section 4.2). */
export interface MailAnswer {
  /** null: there was no answer. */
  code: number | null;
  text: string;
}

const stepTimeoutMs = 15_000;

/** Limit for the whole conversation. Together with the send window of a batch it stays below the lease of a delivery. */
const mailTimeoutMs = 30_000;

/**
 * Sends a mail and ends the connection. Every answer and every failure to get one is a result. `smtp:` requires STARTTLS before
 * the password and the mail are sent, unless the server is on this machine.
 * @throws the signal's reason when it is aborted: it is then unknown whether the server got the mail.
 */
export async function sendMail(
  { url, from, ca }: MailSettings,
  mail: Mail,
  signal: AbortSignal,
  timeoutMs = mailTimeoutMs,
): Promise<MailAnswer> {
  // Loaded when the first mail is sent: most servers send none.
  const { createTransport } = await import("nodemailer");
  const { hostname, port, protocol, username, password } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const secure = protocol === "smtps:";
  const transport = createTransport({
    ...{ host, port: Number(port) || (secure ? 465 : 587), secure },
    requireTLS: !secure && (ca !== undefined || !isOnThisMachine(host)),
    ...(username !== "" && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
    ...{ connectionTimeout: stepTimeoutMs, greetingTimeout: stepTimeoutMs },
    ...{ socketTimeout: stepTimeoutMs, dnsTimeout: stepTimeoutMs },
    // A relay on this machine often has a certificate for another name.
    tls: { ...(ca !== undefined && { ca }), rejectUnauthorized: ca !== undefined || !isOnThisMachine(host) },
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const deadline = AbortSignal.timeout(timeoutMs);
  try {
    const { response } = await transport.sendMail({
      signal: AbortSignal.any([signal, deadline]),
      ...{ from, to: mail.to, subject: mail.subject, text: mail.text, messageId: mail.messageId },
      ...(mail.inReplyTo !== null && { inReplyTo: mail.inReplyTo, references: mail.inReplyTo }),
      // Keeps absence messages away.
      headers: { "Auto-Submitted": "auto-generated" },
    });
    return { code: codeOf(response) ?? 250, text: response };
  } catch (error) {
    signal.throwIfAborted();
    if (deadline.aborted) return { code: null, text: `${host} did not take the mail within ${timeoutMs / 1_000} s.` };
    const { responseCode, response, code } = error as { responseCode?: number; response?: string; code?: string };
    const text = response ?? `${host} cannot be reached or refuses the connection (${code ?? "failed"}).`;
    return { code: responseCode ?? null, text };
  } finally {
    transport.close();
  }
}

const codeOf = (response: string) => {
  const [code] = /^\d{3}/.exec(response) ?? [];
  return code === undefined ? null : Number(code);
};

const isOnThisMachine = (host: string) => host === "localhost" || (isIP(host) !== 0 && isLoopbackAddress(host));

/** Returns the only recipient of a `mailto:` address, or null if it has another form, such as headers or several recipients. */
export function recipientOf(address: string): string | null {
  const [, recipient] = /^mailto:([^\s@,;:<>"()?&%\\]{1,64}@[a-z0-9.-]{1,255})$/i.exec(address) ?? [];
  return recipient ?? null;
}

/** Whether mails may go to this recipient. */
export function isAllowedRecipient(recipient: string, domains: readonly string[]): boolean {
  const domain = recipient.slice(recipient.lastIndexOf("@") + 1).toLowerCase();
  return domains.includes("*") || domains.includes(domain);
}
