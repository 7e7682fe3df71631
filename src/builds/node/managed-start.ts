import path from "node:path";
import { parseStartSteps, type Step } from "../detect/start-line.ts";
import { BuildFailure } from "../failure.ts";
import { withoutProcessManager } from "./process-managers.ts";

/** The programs of a start command in which pm2 starts the last one. */
export interface ManagedStart {
  before: Step[];
  /** What pm2 would start. */
  server: Step;
}

/**
 * Finds the program that pm2 would start in a start command of several programs, such as `npm run migrate && pm2 start app.js`,
 * also when it stands in another script that the command runs.
 * @param argv a command, or the call of sh(1) that `parseStartLine` makes of several.
 * @param directory of the command, relative to the root of the source. Directories of steps are relative to it.
 * @param scripts returns the scripts of the package.json in a directory.
 * @returns null when pm2 starts nothing, or starts something else than one program that is known.
 */
export async function findManagedStart(
  sourceDir: string,
  directory: string,
  { argv, scripts }: { argv: readonly string[]; scripts: (directory: string) => Promise<Record<string, string>> },
): Promise<ManagedStart | null> {
  const given = argv[0] === "sh" && argv[1] === "-c" && argv.length === 3 ? parse(argv[2] ?? "", ".") : null;
  const steps = given ?? [{ argv: [...argv], cwd: "." }];
  for (let depth = 0; depth < depthMax; depth++) {
    const at = steps.findLastIndex((step) => !isUpkeep(step));
    const [last] = steps.splice(at === -1 ? 0 : at);
    if (last === undefined || steps.some(startsManager)) return null;
    const place = path.posix.join(directory, last.cwd);
    const program = await withoutProcessManager(sourceDir, place, last.argv);
    if (program.join(" ") !== last.argv.join(" "))
      return { before: steps.filter((step) => !isUpkeep(step)), server: { argv: program, cwd: last.cwd } };
    const called = stepsOfScript(last, await scripts(place));
    if (called === null) return null;
    steps.push(...called);
  }
  return null;
}

/** Scripts that call others. More than any project has, and an end for those that call each other. */
const depthMax = 8;

/** Returns the words of a command without the variables that it sets. */
function wordsOf({ argv }: Step): string[] {
  const at = argv.findIndex((word) => !/^(?:cross-env|env|npx|exec)$|^\w+=/.test(word));
  return at === -1 ? [] : argv.slice(at);
}

/** Commands of pm2 that start nothing. Beside Pierhead, there is no pm2 for them. */
const isUpkeep = (step: Step) =>
  /^pm2 (?:delete|del|stop|kill|flush|save|logs?|monit|list|ls|l|ps|status|update|install|reset|dump)\b/.test(
    wordsOf(step).slice(0, 2).join(" "),
  );

const startsManager = (step: Step) => /^pm2(?:-\w+)?$/.test(wordsOf(step)[0] ?? "") && !isUpkeep(step);

/** Returns the commands of a script that a command runs; null: it runs none, or npm does more than these commands. */
function stepsOfScript(step: Step, scripts: Record<string, string>): Step[] | null {
  const words = wordsOf(step);
  const [, name] = /^(?:npm|pnpm|yarn|bun)(?: run(?:-script)?)? ([\w:.-]+)$/.exec(words.join(" ")) ?? [];
  const text = scripts[name ?? ""];
  if (name === undefined || text === undefined) return null;
  // npm would run it after the server, which pm2 moves to the background.
  if (scripts[`post${name}`] !== undefined) return null;
  const called = parse(text, step.cwd);
  if (called === null) return null;
  const before = scripts[`pre${name}`] === undefined ? [] : [{ argv: ["npm", "run", `pre${name}`], cwd: step.cwd }];
  const variables = step.argv.slice(0, step.argv.length - words.length).filter((word) => word.includes("="));
  const set = variables.length === 0 ? [] : ["env", ...variables];
  return [...before, ...called].map(({ argv, cwd }) => ({ argv: [...set, ...argv], cwd }));
}

function parse(text: string, cwd: string): Step[] | null {
  try {
    const steps = parseStartSteps(text, { cwd, what: "start command" });
    return steps.map((step) => (step.argv[0] === "exec" ? { ...step, argv: step.argv.slice(1) } : step));
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    return null; // it needs a shell
  }
}
