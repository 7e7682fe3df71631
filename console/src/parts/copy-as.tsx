import { useState } from "react";
import { clientRoutes, routeOf } from "../../../src/contract/routes.ts";
import { baseUrl } from "../server.ts";
import { useToasts } from "./toasts.tsx";

/** A call of the API as people can repeat it elsewhere. */
export interface Repeatable {
  id: keyof typeof clientRoutes;
  input?: Record<string, unknown>;
  /** The same on the command line, where there is a command of its own that does all of it. */
  cli?: string | undefined;
}

/** Copies a call as curl, command line or TypeScript. The key is never among it: it stands in the environment. */
export function CopyAs({ call }: { call: Repeatable }) {
  const { say, fail } = useToasts();
  const [isOpen, setOpen] = useState(false);
  const forms = { curl: curlOf(call), CLI: call.cli ?? cliOf(call), TypeScript: typescriptOf(call) };
  const copy = async (name: string, text: string) => {
    setOpen(false);
    await copyText(text);
    say(`Copied as ${name}.`);
  };
  return (
    <details className="menu" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Copy as</summary>
      <div className="menu-items">
        {Object.entries(forms).map(([name, text]) => (
          <button key={name} type="button" title={text} onClick={() => void copy(name, text).catch(fail)}>
            {name}
          </button>
        ))}
      </div>
    </details>
  );
}

/**
 * The clipboard is missing on pages that are not served over https.
 * @throws Error when the browser does not copy: what is shown once is lost to whoever believes that it did.
 */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text });
  const focused = document.activeElement;
  // Behind an open dialog nothing can be selected.
  ([...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isCopied) throw new Error("The browser did not copy it: select the text instead.");
}

function pathOf({ id, input = {} }: Repeatable): { path: string; body: unknown } {
  const { body, ...rest } = input;
  const query = new URLSearchParams();
  let { path } = routeOf(clientRoutes[id]);
  for (const [name, value] of Object.entries(rest)) {
    if (path.includes(`{${name}}`)) path = path.replace(`{${name}}`, encodeURIComponent(String(value)));
    else if (value !== undefined && value !== null) query.set(name, String(value));
  }
  return { path: query.size === 0 ? path : `${path}?${query}`, body };
}

/** In single quotes a shell reads nothing but the quote itself. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** One word of a command line, whatever is in it. */
export const shellWord = (text: string) => (/^[\w./:@=-]+$/.test(text) ? text : quoted(text));

function curlOf(call: Repeatable): string {
  const { path, body } = pathOf(call);
  const lines = [
    `curl -X ${routeOf(clientRoutes[call.id]).verb} ${quoted(baseUrl + path)}`,
    `-H "X-Api-Key: $PIERHEAD_API_KEY"`,
  ];
  if (body !== undefined) lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`);
  return lines.join(" \\\n  ");
}

function cliOf(call: Repeatable): string {
  const { path, body } = pathOf(call);
  const data = body === undefined ? "" : ` -d ${quoted(JSON.stringify(body))}`;
  return `npx pierhead api ${routeOf(clientRoutes[call.id]).verb} ${quoted(path)}${data}`;
}

function typescriptOf({ id, input }: Repeatable): string {
  const given = input === undefined ? "" : JSON.stringify(input, null, 2);
  return [
    'import { createClient } from "pierhead/client";',
    "",
    `const client = createClient({ baseUrl: ${JSON.stringify(baseUrl)}, apiKey: process.env.PIERHEAD_API_KEY });`,
    `const answer = await client.${id}(${given});`,
  ].join("\n");
}
