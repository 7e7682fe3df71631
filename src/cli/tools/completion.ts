import type { CommandSpec, LoadCommands } from "../command.ts";
import { usageFailure } from "../failure.ts";
import { globalOptions } from "../global-options.ts";
import { localName, readContexts } from "../login/contexts.ts";
import type { Session } from "../session.ts";

/** Each script sends the words before the cursor to `pierhead __complete`, which prints one candidate per line. Without candidates the shell completes file names. */
const scripts: Record<string, string> = {
  bash: `_pierhead() {
  local IFS=$'\\n'
  COMPREPLY=($(pierhead __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _pierhead pierhead`,
  zsh: `#compdef pierhead
_pierhead() {
  local -a candidates
  candidates=("\${(@f)$(pierhead __complete -- "\${(@)words[2,$CURRENT]}" 2>/dev/null)}")
  candidates=(\${candidates:#})
  if (( $#candidates )); then compadd -a candidates; else _files; fi
}
compdef _pierhead pierhead`,
  fish: `complete -c pierhead -f -a '(pierhead __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
complete -c pierhead -n '__fish_seen_subcommand_from deploy import' -F`,
  // Before 7.3, PowerShell drops an empty argument of a program.
  pwsh: `Register-ArgumentCompleter -Native -CommandName pierhead -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $words = @($commandAst.CommandElements | Select-Object -Skip 1 |
    Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | ForEach-Object { "$_" })
  if ($wordToComplete -eq '') { $words += if ($PSVersionTable.PSVersion -lt [version]'7.3') { '""' } else { '' } }
  pierhead __complete -- @words 2>$null | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}`,
};

export async function completion(session: Session, [shell = ""]: string[]): Promise<void> {
  const script = scripts[shell];
  if (script === undefined) throw usageFailure(`"${shell}" is not one of ${Object.keys(scripts).join(", ")}.`);
  session.answer({ shell, script }, () => script);
}

/** Prints the candidates for the last word. Never fails, because a shell cannot show an error while it completes. */
export async function complete(
  session: Session,
  [words = []]: [string[]?],
  _options: unknown,
  loadCommands: LoadCommands,
): Promise<void> {
  const found = await loadCommands()
    .then((commands) => candidates(session, commands, words))
    .catch(() => []);
  session.answer(found, () => (found.length === 0 ? undefined : found.join("\n")));
}

async function candidates(session: Session, commands: readonly CommandSpec[], words: string[]): Promise<string[]> {
  const typed = words.at(-1) ?? "";
  const { spec, given } = locate(commands, words.slice(0, -1));
  const fitting = (all: readonly string[]) => all.filter((candidate) => candidate.startsWith(typed));
  if (typed.startsWith("-")) return fitting(optionNames(spec));
  if (spec === undefined || spec.commands !== undefined) {
    const offered = (spec?.commands ?? commands).filter(({ hidden }) => !hidden);
    return fitting(offered.flatMap(({ name, alias }) => (alias === undefined ? [name] : [name, alias])));
  }
  const [last = ""] = spec.args?.at(-1) ?? [];
  const argument = spec.args?.[given.length]?.[0] ?? (last.includes("...") ? last : "");
  if (/^.deployment(\.{3})?.$/.test(argument)) {
    return (await deploymentNames(session, typed)).filter((name) => !given.includes(name));
  }
  if (/^.context.$/.test(argument)) return fitting([localName, ...Object.keys(readContexts(session.context).contexts)]);
  return argument === "<shell>" ? fitting(Object.keys(scripts)) : [];
}

/** Returns the command that the preceding words name, and the arguments that it already has. */
function locate(
  commands: readonly CommandSpec[],
  words: readonly string[],
): { spec: CommandSpec | undefined; given: string[] } {
  let spec: CommandSpec | undefined;
  const given: string[] = [];
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? "";
    const inner: CommandSpec | undefined = (spec === undefined ? commands : (spec.commands ?? [])).find(
      ({ name, alias }) => name === word || alias === word,
    );
    if (inner !== undefined && given.length === 0) spec = inner;
    else if (!word.startsWith("-")) given.push(word);
    else if (takesValue(spec, word)) at += 1;
  }
  return { spec, given };
}

const flagsOf = (spec: CommandSpec | undefined) => [...(spec?.options ?? []), ...globalOptions].map(([flags]) => flags);

const takesValue = (spec: CommandSpec | undefined, word: string) =>
  flagsOf(spec).some((flags) => flags.includes("<") && flags.split(/[ ,]+/).includes(word));

const optionNames = (spec: CommandSpec | undefined) =>
  flagsOf(spec).flatMap((flags) => flags.split(/[ ,]+/).filter((flag) => flag.startsWith("--")));

/** After this time the user has typed the name by hand. */
const askTimeoutMs = 1_000;

async function deploymentNames(session: Session, typed: string): Promise<string[]> {
  const client = await session.client();
  const query = typed === "" ? { limit: 100 } : { limit: 100, name_contains: typed };
  const { resources } = await client.listDeployments(query, { signal: session.signal, deadlineMs: askTimeoutMs });
  return resources.map(({ name }) => name).filter((name) => name.startsWith(typed));
}
