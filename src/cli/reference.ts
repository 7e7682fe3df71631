import { answerTypes } from "./answer-types.ts";
import type { CommandSpec } from "./command.ts";
import { commandTable } from "./command-table.ts";
import { globalOptions } from "./global-options.ts";

/** Returns the text of docs/reference/cli.md, generated from the table that the parser uses. */
export function cliReference(): string {
  const sections = commandTable.filter(({ hidden }) => !hidden).flatMap((spec) => describe(spec, ["pierhead"]));
  const globals = table(
    ["Option", "Meaning"],
    globalOptions.map(([flags, meaning]) => [code(flags), meaning]),
  );
  return [introduction, ...overview(), "## Options of every command", globals, ...exits, ...types, ...sections]
    .join("\n\n")
    .concat("\n");
}

const introduction = `# The \`pierhead\` command

This page is generated from \`src/cli/command-table.ts\`. \`pierhead COMMAND --help\` shows the same text.

Commands write data to stdout and messages to stderr. Refer to a deployment by its name, its id or a unique prefix of its id, and
to a revision by its number, its id or a unique prefix of its id. With \`--json\`, stdout is one JSON document (\`logs\` prints one a
line). On failure it has the key \`error\`. [Types of answers](#types-of-answers) has the types below, and
\`pierhead schema COMMAND\` prints the JSON Schema of an answer.

## Server, key and workspace

A command calls the server of the first of these that is set: \`--context\`, \`--url\`, \`--data-dir\`, \`PIERHEAD_URL\`,
\`PIERHEAD_DATA_DIR\`, the current context of \`pierhead login\`, the server of \`~/.pierhead\`. In short: flags go before the
environment, and the environment goes before the context. \`pierhead whoami\` shows the result and where it comes from.

The key is that of \`--api-key-file\`, then \`PIERHEAD_API_KEY\`, then the one that is stored for this server. A stored key is only sent
to the server that it was stored for. \`PIERHEAD_API_KEY\` is only sent to \`PIERHEAD_URL\` if that is set, and never with \`--context\`. If
only \`PIERHEAD_API_KEY\` is set, the current context is not used. Contexts are in \`~/.config/pierhead/contexts.json\` (mode 0600);
\`XDG_CONFIG_HOME\` or \`PIERHEAD_CONFIG_DIR\` moves the file.

## Name of a deployment

Without \`--name\`, \`pierhead deploy DIR\` takes \`name\` of the configuration, that of \`package.json\`, or the name of the directory. The
command remembers in \`directories.json\`, beside the contexts, which directory of this machine it deployed under a name. It refuses
to replace that agent by the project of another directory until \`--name\` says that this is meant. A directory that was moved, and
another clone of the same repository, count as the same project.`;

/** Lists every command below the headings of `pierhead --help`, with a link to its section. */
function overview(): string[] {
  const shown = commandTable.filter(({ hidden }) => !hidden);
  const groups = [...new Set(shown.map(({ group = "" }) => group))];
  const rowsOf = (spec: CommandSpec, path: readonly string[]): string[][] => {
    const words = [...path, spec.name];
    const inner = (spec.commands ?? []).flatMap((one) => rowsOf(one, words));
    if (spec.load === undefined) return inner;
    return [[`[\`${words.join(" ")}\`](#${words.join("-")})`, `${spec.summary}.`], ...inner];
  };
  const tables = groups.flatMap((group) => [
    `**${group.replace(/:$/, "")}**`,
    table(
      ["Command", "What it does"],
      shown.filter((spec) => (spec.group ?? "") === group).flatMap((spec) => rowsOf(spec, [])),
    ),
  ]);
  return ["## All commands", ...tables];
}

const exits = [
  "## Exit codes",
  table(
    ["Code", "Meaning"],
    [
      ["0", "Done."],
      ["1", "Failed. The message on stderr gives the reason and the next steps."],
      [
        "2",
        "Cancelled (Ctrl-C, a declined confirmation, an interrupted or skipped revision), or invalid arguments. `plan` and `diff`: there are changes.",
      ],
      ["4", "The key is missing, unknown, or lacks permission."],
      ["8", "Not finished: `--no-wait` was given, or `--timeout` has passed. The server continues the work."],
    ],
  ),
];

const types = [
  "## Types of answers",
  "`[T]` is a list, `A | B` one of both, and a key with `?` may be missing. Names that are not in this table, such as `Deployment` or\n`Workspace`, are types of the [API](openapi.json), with masked secret values. A later version may add keys.",
  table(
    ["Type", "Content"],
    Object.entries(answerTypes).map(([name, notation]) => [code(name), code(notation)]),
  ),
];

function describe(spec: CommandSpec, path: readonly string[]): string[] {
  const own = [...path, spec.name];
  const inner = (spec.commands ?? []).flatMap((one) => describe(one, own));
  if (spec.load === undefined) return inner;
  const { args = [], options = [], examples = [] } = spec;
  const usage = [...own, ...(options.length > 0 ? ["[options]"] : []), ...args.map(([notation]) => notation)].join(" ");
  return [
    `## ${own.slice(1).join(" ")}`,
    `${spec.summary}.${spec.alias === undefined ? "" : ` \`pierhead ${spec.alias}\` is the same command.`}`,
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
    ...(spec.json === undefined ? [] : [`\`--json\`: ${describeJson(spec)}`]),
    ...inner,
  ];
}

function describeJson({ json = "none", jsonNote }: CommandSpec): string {
  const shape = json === "none" ? "none" : code(json);
  return jsonNote === undefined ? shape : `${shape}, ${jsonNote}`;
}

function code(text: string): string {
  return `\`${text}\``;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}
