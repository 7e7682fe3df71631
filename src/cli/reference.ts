import type { CommandSpec } from "./command.ts";
import { commandTable } from "./command-table.ts";
import { globalOptions } from "./global-options.ts";

/** docs/reference/cli.md, made from the same table as the commands themselves. */
export function cliReference(): string {
  const sections = commandTable.filter(({ hidden }) => !hidden).flatMap((spec) => describe(spec, ["pierhead"]));
  const globals = table(
    ["Option", "Meaning"],
    globalOptions.map(([flags, meaning]) => [code(flags), meaning]),
  );
  return [introduction, "## Options of every command", globals, ...exits, ...sections].join("\n\n").concat("\n");
}

const introduction = `# The \`pierhead\` command

This page is generated from \`src/cli/command-table.ts\`; \`pierhead COMMAND --help\` says the same.

Data goes to stdout, talk to stderr. A deployment or revision may be named by its name, its id, or a unique beginning of its
id. With \`--json\` stdout is one JSON document, on failure too: it then has the key \`error\` with \`message\`, \`because\`,
\`hints\`, \`request_id\` and \`exit_code\`. Names such as \`Deployment\` or \`Workspace\` are the shapes of the API, with the values of
secrets masked.`;

const exits = [
  "## Exit codes",
  table(
    ["Code", "Meaning"],
    [
      ["0", "Done."],
      ["1", "It failed; stderr says why and what to try."],
      [
        "2",
        "Cancelled (Ctrl-C, a question answered with no, a revision that was interrupted or skipped), or wrongly called.",
      ],
      ["4", "The key is missing, unknown, or may not do that."],
      ["8", "Not ended yet: `--no-wait` was given, or `--timeout` has passed. The work goes on in the server."],
    ],
  ),
];

function describe(spec: CommandSpec, path: readonly string[]): string[] {
  const own = [...path, spec.name];
  const inner = (spec.commands ?? []).flatMap((one) => describe(one, own));
  if (spec.load === undefined) return inner;
  const { args = [], options = [], examples = [], json } = spec;
  const usage = [...own, ...(options.length > 0 ? ["[options]"] : []), ...args.map(([notation]) => notation)].join(" ");
  return [
    `## ${own.slice(1).join(" ")}`,
    `${spec.summary}.`,
    `\`\`\`\n${usage}\n\`\`\``,
    ...(args.length === 0
      ? []
      : [
          table(
            ["Argument", "Meaning"],
            args.map(([notation, meaning]) => [code(notation), meaning]),
          ),
        ]),
    ...(options.length === 0
      ? []
      : [
          table(
            ["Option", "Meaning", "Default"],
            options.map(([flags, meaning, fallback = ""]) => [code(flags), meaning, fallback]),
          ),
        ]),
    ...(examples.length === 0 ? [] : [`\`\`\`sh\n${examples.join("\n")}\n\`\`\``]),
    ...(json === undefined ? [] : [`\`--json\`: ${describeJson(json)}`]),
    ...inner,
  ];
}

/** A shape stands as code, with what is said around it as text. */
function describeJson(json: string): string {
  return json.replace(/(\{.*?\}(?=[,;]|$)|^[A-Z]\w+$|\bLogEntry\b)/g, (shape) => code(shape));
}

const code = (text: string) => `\`${text}\``;

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}
