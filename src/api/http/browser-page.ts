import type { FastifyReply } from "fastify";
import { htmlText, pagePolicy, pageStyle } from "./page-style.ts";

/** HTML page for a browser. */
export interface Page {
  status: number;
  title: string;
  /** Sentences, shown as paragraphs. */
  lines: readonly string[];
  /** Redirect target, together with a 3xx status; the browser then never shows the rest of the page. */
  location?: string;
  /** Address on this server for a "Go back" link. */
  back?: string;
  /** Facts shown below the lines: name and value. */
  facts?: readonly (readonly [name: string, value: string])[];
  /** Form with one button that posts these fields to another server. */
  form?: { action: string; fields: Record<string, string>; submit: string };
}

/**
 * Sends a page that runs no script, loads nothing and cannot be framed. It sends no referrer, because its own address
 * may have contained a code (RFC 9700, section 4.2.4).
 */
export function sendPage(reply: FastifyReply, page: Page): FastifyReply {
  const { form } = page;
  // The target of the form may redirect to a sign-in page elsewhere or straight back; browsers apply form-action to
  // redirects too.
  const target = form === undefined ? "'none'" : `'self' ${new URL(form.action).origin} https:`;
  return reply
    .code(page.status)
    .headers({
      "content-security-policy": pagePolicy.replace("form-action 'none'", `form-action ${target}`),
      // Without any referrer the form would have a null origin, so the other server may see our origin, but no path.
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

/** Values that people chose may contain bidirectional control characters: removes them and escapes markup. */
const text = (value: string) => htmlText(value.replace(/[\p{Cc}\p{Cf}]/gu, ""));
