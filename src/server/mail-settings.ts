import type { MailSettings } from "../integrations/mail.ts";
import { optional, type Read, requireScheme } from "./setting.ts";

export const mailSettings = {
  smtpUrl: optional(
    "PIERHEAD_SMTP_URL",
    "none",
    "Mail server for alerts: `smtp://user:password@host:587` with STARTTLS, or `smtps://` for TLS at once. A server on this machine may have neither.",
  ),
  smtpFrom: optional(
    "PIERHEAD_SMTP_FROM",
    "none",
    "Sender of these mails: `alerts@example.org`. Required with `PIERHEAD_SMTP_URL`.",
  ),
  smtpDomains: optional(
    "PIERHEAD_SMTP_DOMAINS",
    "the domain of the sender",
    "Domains that mails may go to, separated by commas. `*`: any.",
  ),
};

/** Returns the settings of the mail server, or null if there is none. @throws Error naming the variable. */
export function readMail(read: Read<typeof mailSettings>): MailSettings | null {
  const { smtpUrl: url, smtpFrom: from, smtpDomains } = read;
  requireScheme("PIERHEAD_SMTP_URL", url, ["smtp", "smtps"]);
  if (url === undefined) return null;
  if (!isUsable(url)) {
    throw new Error("PIERHEAD_SMTP_URL needs a host, and special characters of its user and password as %40, %25, ...");
  }
  const [, domain] = /^[^\s@<>,]+@([^\s@<>,]+)$/.exec(from ?? "") ?? [];
  if (from === undefined || domain === undefined) {
    throw new Error("PIERHEAD_SMTP_URL needs PIERHEAD_SMTP_FROM, an address such as alerts@example.org");
  }
  const domains = (smtpDomains ?? domain).split(",").map((one) => one.trim().toLowerCase());
  return { url, from, domains };
}

/** The server decodes user and password for each mail, and a bare % would make every attempt fail. */
function isUsable(url: string): boolean {
  const { hostname, username, password } = new URL(url);
  try {
    return hostname !== "" && decodeURIComponent(username + password) !== null;
  } catch {
    return false;
  }
}
