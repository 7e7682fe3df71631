import { CodeXml } from "lucide-react";
import { clientRoutes, routeOf } from "../../../src/contract/routes.ts";
import { baseUrl } from "../server.ts";
import { ActionMenu } from "./action-menu.tsx";
import { IconButton } from "./icon-button.tsx";
import { useToasts } from "./toasts.tsx";

/** An API call that a user can repeat elsewhere. */
export interface Repeatable {
  id: keyof typeof clientRoutes;
  input?: Record<string, unknown>;
  /** The equivalent command, if one command does the whole call. */
  cli?: string | undefined;
}

/** A menu that copies a call as curl, command or TypeScript. The copies read the key from the environment. */
export function CopyAs({ call }: { call: Repeatable }) {
  const { notify, notifyError } = useToasts();
  const forms = { curl: curlOf(call), CLI: call.cli ?? cliOf(call), TypeScript: typescriptOf(call) };
  const copy = async (name: string, text: string) => {
    await copyText(text);
    notify(`Copied as ${name}.`);
  };
  return (
    <ActionMenu
      trigger={<IconButton name="Copy as" icon={<CodeXml size={15} />} />}
      heading="Copy this call as"
      actions={Object.entries(forms).map(([name, text]) => ({
        text: name,
        title: text,
        act: () => void copy(name, text).catch(notifyError),
      }))}
    />
  );
}

/**
 * Copies the text. Pages that are not served over https have no clipboard API, so they use the browser's copy command.
 * @throws Error when the browser does not copy, because a user would lose a key that is shown only once.
 */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text });
  const focused = document.activeElement;
  // Text behind an open dialog cannot be selected.
  ([...document.querySelectorAll("[role=dialog]")].at(-1) ?? document.body).append(area);
  area.select();
  const isCopied = document.execCommand("copy");
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isCopied) throw new Error("The browser could not copy the text. Select and copy it yourself.");
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

/** Quotes for a shell, which expands nothing in single quotes except the quote itself. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns the text as one word of a command line. */
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
