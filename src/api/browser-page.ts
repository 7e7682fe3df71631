import type { FastifyReply } from "fastify";
import { htmlText, pagePolicy, pageStyle } from "./page.ts";

/** A page for a browser. */
export interface Page {
  status: number;
  title: string;
  /** Sentences, shown as paragraphs. */
  lines: readonly string[];
  /** Where the browser goes at once, with a status of the 300s; the rest of the page is then nobody's to read. */
  location?: string;
  /** An address of this server that a link leads back to. */
  back?: string;
  /** Facts below them: name and value. */
  facts?: readonly (readonly [name: string, value: string])[];
}

/**
 * Sends a page that runs nothing, loads nothing, is shown in nobody's frame, and whose address, which may have held a
 * code, is told to nobody (RFC 9700, section 4.2.4).
 */
export function sendPage(reply: FastifyReply, page: Page): FastifyReply {
  return reply
    .code(page.status)
    .headers({
      "content-security-policy": pagePolicy,
      "referrer-policy": "no-referrer",
      "x-frame-options": "DENY",
      "cross-origin-opener-policy": "same-origin",
      ...(page.location !== undefined && { location: page.location }),
    })
    .type("text/html; charset=utf-8")
    .send(htmlOf(page));
}

function htmlOf({ title, lines, back, facts = [] }: Page): string {
  const rows = facts.map(([name, value]) => `<tr><th>${text(name)}</th><td>${text(value)}</td></tr>`).join("");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><title>${text(title)}</title><style>${pageStyle}</style></head><body><main>
<h1>${text(title)}</h1>
${lines.map((line) => `<p>${text(line)}</p>`).join("\n")}
${back === undefined ? "" : `<p><a href="${text(back)}">Go back</a></p>`}
${rows === "" ? "" : `<table>${rows}</table>`}
</main></body></html>
`;
}

/** What people chose may hold marks that turn text around: they are left out as well as markup. */
const text = (value: string) => htmlText(value.replace(/[\p{Cc}\p{Cf}]/gu, ""));
