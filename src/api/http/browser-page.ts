import type { FastifyReply } from "fastify";
import { htmlText, pagePolicy, pageStyle } from "./page-style.ts";

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
  /** A button that hands these fields to another server. */
  form?: { action: string; fields: Record<string, string>; submit: string };
}

/**
 * Sends a page that runs nothing, loads nothing, is shown in nobody's frame, and whose address, which may have held a
 * code, is told to nobody (RFC 9700, section 4.2.4).
 */
export function sendPage(reply: FastifyReply, page: Page): FastifyReply {
  const { form } = page;
  // Where a form goes may send people to a sign-in elsewhere first, or straight back; browsers hold redirects to it too.
  const target = form === undefined ? "'none'" : `'self' ${new URL(form.action).origin} https:`;
  return reply
    .code(page.status)
    .headers({
      "content-security-policy": pagePolicy.replace("form-action 'none'", `form-action ${target}`),
      // A form without any referrer would come from nowhere: the other server may see of which server it is, and no more.
      "referrer-policy": form === undefined ? "no-referrer" : "strict-origin",
      "x-frame-options": "DENY",
      "cross-origin-opener-policy": "same-origin",
      ...(page.location !== undefined && { location: page.location }),
    })
    .type("text/html; charset=utf-8")
    .send(htmlOf(page));
}

function htmlOf({ title, lines, back, facts = [], form }: Page): string {
  const rows = facts.map(([name, value]) => `<tr><th>${text(name)}</th><td>${text(value)}</td></tr>`).join("");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex"><title>${text(title)}</title><style>${pageStyle}</style></head><body><main>
<h1>${text(title)}</h1>
${lines.map((line) => `<p>${text(line)}</p>`).join("\n")}
${back === undefined ? "" : `<p><a href="${text(back)}">Go back</a></p>`}
${rows === "" ? "" : `<table>${rows}</table>`}
${form === undefined ? "" : formOf(form)}
</main></body></html>
`;
}

function formOf({ action, fields, submit }: NonNullable<Page["form"]>): string {
  const hidden = Object.entries(fields).map(
    ([name, value]) => `<input type="hidden" name="${htmlText(name)}" value="${htmlText(value)}">`,
  );
  return `<form method="post" action="${htmlText(action)}">${hidden.join("")}<button>${text(submit)}</button></form>`;
}

/** What people chose may hold marks that turn text around: they are left out as well as markup. */
const text = (value: string) => htmlText(value.replace(/[\p{Cc}\p{Cf}]/gu, ""));
