import { Command, CommanderError, Help, Option } from "commander";
import { ApiFailure } from "../client/failure.ts";
import type { CommandSpec, LoadCommands } from "./command.ts";
import type { CliContext, Output } from "./context.ts";
import { CliFailure, describeFailure, exitCodes, explainFailure, ProgramExit, usageFailure } from "./failure.ts";
import { globalOptions } from "./global-options.ts";
import { mainCommands } from "./main-table.ts";
import { createSession, type GlobalOptions, type Session } from "./session.ts";
import { type AsStarted, isStartedByNpx, withNpx } from "./terminal/started-as.ts";
import { createTerminal, harmless, type Terminal } from "./terminal/terminal.ts";
import { parseDuration, shellWord } from "./terminal/text.ts";
import { clientVersion } from "./version.ts";

export interface Cli {
  /** Runs the command in `argv` and returns the exit code. Never throws. A failed program of `exec` gives its own code. */
  run(): Promise<number>;
}

/** Creates the `pierhead` command. It reads nothing outside of `context`, and loads a command when it is called. */
export function createCli(context: CliContext): Cli {
  let session: Session | undefined;
  let asStarted: AsStarted = (text) => text;
  const act: Act = async (spec, args, options) => {
    const terminal = createTerminal(context, options.color === false, asStarted);
    session = createSession(context, terminal, options);
    const run = await spec.load?.().catch(explainMissing);
    await run?.(session, args, options, loadCommands);
  };
  return {
    async run() {
      try {
        if (isStartedByNpx(context.env)) asStarted = withNpx(visibleNames(await loadCommands()));
        const program = buildProgram(context, await callable(context.argv), { act, asStarted });
        // A call without a command shows the help and succeeds.
        if (context.argv.length === 0) program.outputHelp();
        else await program.parseAsync(context.argv, { from: "user" });
        return exitCodes.ok;
      } catch (error) {
        if (error instanceof CommanderError && error.exitCode === 0) return exitCodes.ok; // --help, --version
        if (error instanceof ProgramExit) return error.code;
        const failure = (await explainMissingServer(error, session)) ?? explain(error, context.signal);
        const terminal = session?.terminal ?? createTerminal(context, false, asStarted);
        if (context.argv.includes("--json") && !session?.hasAnswered()) {
          // On one line, because `logs --follow` prints one document per line.
          terminal.print(JSON.stringify({ error: describeFailure(failure, terminal.asStarted) }));
        }
        // Commander has already printed its own errors and suggestions.
        if (!(error instanceof CommanderError)) showFailure(terminal, failure);
        return failure.exitCode;
      }
    },
  };
}

function explain(error: unknown, signal: AbortSignal): CliFailure {
  if (!(error instanceof CommanderError)) return explainFailure(error, signal);
  return usageFailure(error.code === "commander.help" ? "No command given." : error.message.replace(/^error: /, ""));
}

/** Without a key in the data directory that the user named, the call went to the usual address, where another server answers. */
async function explainMissingServer(error: unknown, session: Session | undefined): Promise<CliFailure | undefined> {
  if (!(error instanceof ApiFailure) || error.status !== 401 || session?.options.dataDir === undefined)
    return undefined;
  const { apiKeyFrom, urlFrom, url, dataDir } = await session.connection();
  if (apiKeyFrom !== "none" || urlFrom !== "default") return undefined;
  return new CliFailure(`No server has been started with the data directory ${dataDir}.`, {
    exitCode: exitCodes.auth,
    because: `The server at ${url} asks for a key.`,
    hints: [`Start one: pierhead up --data-dir ${shellWord(session.options.dataDir)} --port PORT`],
  });
}

/** The package `pierhead-client` lacks the modules of some commands. A missing package is another failure. */
function explainMissing(error: NodeJS.ErrnoException): never {
  if (error.code !== "ERR_MODULE_NOT_FOUND" || !error.message.startsWith("Cannot find module")) throw error;
  throw new CliFailure("This command is not in the package pierhead-client.", {
    hints: ["Install the package that has it: npm install --global pierhead"],
  });
}

type Act = (spec: CommandSpec, args: unknown[], options: GlobalOptions) => Promise<void>;

const loadCommands: LoadCommands = async () => (await import("./command-table.ts")).commandTable;

const visibleNames = (specs: readonly CommandSpec[]) =>
  specs.filter(({ hidden }) => hidden !== true).flatMap(({ name, alias = name }) => [name, alias]);

/** Returns only the named command where possible, because to load and build all of them takes 6 ms. */
async function callable([first]: readonly string[]): Promise<readonly CommandSpec[]> {
  const named = mainCommands.filter(({ name }) => name === first);
  if (named.length > 0) return named;
  const commandTable = await loadCommands();
  const inGroups = commandTable.filter(({ name, alias }) => name === first || (alias !== undefined && alias === first));
  return inGroups.length > 0 ? inGroups : commandTable;
}

function buildProgram(
  { stdout, stderr }: CliContext,
  specs: readonly CommandSpec[],
  { act, asStarted }: { act: Act; asStarted: AsStarted },
): Command {
  const write = (output: Output) => (text: string) => void output.write(asStarted(text));
  const program = new Command("pierhead")
    .description("Builds, runs, updates and monitors agent servers.")
    .version(clientVersion(), "-V, --version", "show the version of this program")
    .configureHelp({ showGlobalOptions: true, formatHelp: commandsFirst })
    .configureOutput({ writeOut: write(stdout), writeErr: write(stderr) })
    .showSuggestionAfterError()
    .exitOverride()
    .addHelpText("before", `${examplesText(firstSteps)}\n`)
    .addHelpText(
      "after",
      "\nExit codes: 0 done, 1 failed, 2 cancelled or invalid arguments, 4 not allowed, 8 not finished",
    );
  for (const [flags, meaning] of globalOptions) program.option(flags, meaning);
  for (const spec of specs) addCommand(program, spec, act);
  return program;
}

/** Formats the help with the commands of a group before its options, most of which every command has. */
function commandsFirst(command: Command, helper: Help): string {
  const sections = Help.prototype.formatHelp.call(helper, command, helper).trimEnd().split("\n\n");
  const isOptions = (section: string) => /^(?:Global )?Options:/.test(section);
  const ordered = [...sections.filter((one) => !isOptions(one)), ...sections.filter(isOptions)];
  return `${ordered.join("\n\n")}\n`;
}

const firstSteps = [
  "pierhead up",
  "pierhead deploy DIR",
  'pierhead invoke NAME "hello"',
  "pierhead logs NAME -f",
  "pierhead why NAME",
];

function addCommand(parent: Command, spec: CommandSpec, act: Act): void {
  const command = parent.command(spec.name, { hidden: spec.hidden === true }).description(spec.summary);
  command.copyInheritedSettings(parent);
  if (spec.alias !== undefined) command.alias(spec.alias);
  if (spec.group !== undefined) command.helpGroup(spec.group);
  if (spec.examples !== undefined) command.addHelpText("before", `${examplesText(spec.examples)}\n`);
  for (const [notation, meaning] of spec.args ?? []) command.argument(notation, meaning);
  for (const [flags, meaning, fallback] of spec.options ?? []) {
    const option = new Option(flags, meaning);
    if (option.attributeName() === "timeout") option.argParser(refuseNoDuration);
    command.addOption(fallback === undefined ? option : option.default(fallback));
  }
  for (const inner of spec.commands ?? []) addCommand(command, inner, act);
  if (spec.load !== undefined) {
    // A word after a group without arguments is a misspelled command.
    const isPlainGroup = spec.commands !== undefined && spec.args === undefined;
    command.allowExcessArguments(isPlainGroup);
    command.action(async (...given: unknown[]) => {
      if (isPlainGroup && command.args.length > 0) {
        const names = spec.commands?.map(({ name }) => name).join(", ");
        command.error(`error: unknown command '${command.args[0]}' (${spec.name} has: ${names})`);
      }
      const args = given.slice(0, -2);
      // `env` lists the variables of the deployment that it is given; `listener` needs none.
      const isGroupAlone = spec.commands !== undefined && spec.args !== undefined && args[0] === undefined;
      if (isGroupAlone) command.help({ error: true });
      await act(spec, args.length === 1 && spec.hidden ? args : args.flat(), command.optsWithGlobals());
    });
  }
}

/** Checks a duration while the arguments are parsed, so that a command with invalid arguments changes nothing. */
function refuseNoDuration(text: string): string {
  parseDuration(text);
  return text;
}

const examplesText = (examples: readonly string[]) =>
  ["Examples:", ...examples.map((example) => `  $ ${example}`)].join("\n");

/** Prints what failed, why, what to try, and the request id to search the server's log for. */
function showFailure(terminal: Terminal, failure: CliFailure): void {
  const { paintErr, say } = terminal;
  say(`${failure.isNotice ? "" : `${paintErr("red", "Error:")} `}${harmless(failure.message)}`);
  if (failure.because !== null) {
    for (const line of harmless(failure.because).split("\n")) say(line === "" ? "" : `  ${line}`);
  }
  for (const hint of failure.hints) say(`  ${paintErr("cyan", "→")} ${harmless(hint)}`);
  if (failure.requestId !== null) say(paintErr("dim", `  Request id ${failure.requestId}`));
}
