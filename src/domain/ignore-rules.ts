/** Rules that exclude paths, which are relative to the packed root and use `/` between their parts. */
export interface IgnoreRules {
  /** Adds a rule file found in `directory` ("" is the root). It applies to paths below; later rules win. */
  add(directory: string, text: string, kind: "gitignore" | "dockerignore"): void;
  ignores(file: string, isDirectory: boolean): boolean;
  /** Like `ignores`, for callers that do not skip ignored directories: applies the last rule for the file or its nearest parent. */
  ignoresBelow(file: string, isDirectory: boolean): boolean;
  /** Whether nothing below this directory can be an exception, so that it need not be read, perhaps without permission. */
  ignoresAllBelow(directory: string): boolean;
}

interface Rule {
  directory: string;
  parts: Step<string>[];
  isNegated: boolean;
  onlyDirectories: boolean;
}

/** Creates rules of .gitignore (gitignore(5)) and .dockerignore, which differ in the meaning of a pattern without a slash. */
export function createIgnoreRules(): IgnoreRules {
  const rules: Rule[] = [];
  const lastWord = (file: string, isDirectory: boolean) => {
    const names = file.split("/");
    return rules.findLast(({ directory, parts, onlyDirectories }) => {
      if (onlyDirectories && !isDirectory) return false;
      if (directory !== "" && !file.startsWith(`${directory}/`)) return false;
      return takesAll(parts, directory === "" ? names : names.slice(directory.split("/").length));
    });
  };
  return {
    add(directory, text, kind) {
      for (const line of text.replace(/^\ufeff/, "").split(/\r?\n/)) {
        const rule = parseRule(line, kind);
        if (rule !== undefined) rules.push({ directory, ...rule });
      }
    },
    ignores(file, isDirectory) {
      return lastWord(file, isDirectory)?.isNegated === false;
    },
    ignoresBelow(file, isDirectory) {
      for (
        let [path, isDir] = [file, isDirectory];
        path !== "";
        path = path.slice(0, Math.max(0, path.lastIndexOf("/")))
      ) {
        const last = lastWord(path, isDir);
        if (last !== undefined) return !last.isNegated;
        isDir = true;
      }
      return false;
    },
    ignoresAllBelow(directory) {
      return !rules.some(({ isNegated }) => isNegated) && this.ignoresBelow(directory, true);
    },
  };
}

function parseRule(line: string, kind: "gitignore" | "dockerignore"): Omit<Rule, "directory"> | undefined {
  // Trailing blanks are ignored unless escaped.
  let text = line.replace(/(?<!\\)\s+$/, "");
  if (text === "" || text.startsWith("#")) return undefined;
  const isNegated = text.startsWith("!");
  if (isNegated) text = text.slice(1);
  const onlyDirectories = text.endsWith("/");
  text = text.replace(/\/+$/, "");
  // Git: a slash at the start or in the middle anchors a pattern to its directory. Docker: every pattern is anchored.
  const isAnchored = kind === "dockerignore" || text.includes("/");
  text = text.replace(/^(\.?\/)+/, "");
  if (text === "" || text === ".") return undefined;
  const parts: Step<string>[] = [...(isAnchored ? [] : [many]), ...partsOf(text)];
  // Docker also ignores everything below an ignored directory, which the directory walk does for both kinds.
  return { parts, isNegated, onlyDirectories: onlyDirectories && kind === "gitignore" };
}

/** A condition on one name of a path or one character of a name; or any number of items. */
type Step<Item> = ((item: Item) => boolean) | "many";
const many = "many" as const;

/**
 * Returns whether steps match all items, in order. Backtracking changes only the length of the last `many`: another length
 * of an earlier one would not help the steps after it. A pattern therefore costs at most its length times that of the path,
 * while a regular expression tries every combination.
 */
function takesAll<Item>(steps: readonly Step<Item>[], items: ArrayLike<Item>): boolean {
  let [step, at] = [0, 0];
  let [lastMany, taken] = [-1, 0];
  while (at < items.length) {
    const wanted = steps[step];
    if (wanted === many) {
      [lastMany, taken] = [step, at];
      step += 1;
    } else if (wanted?.(items[at] as Item)) {
      step += 1;
      at += 1;
    } else if (lastMany === -1) return false;
    else {
      taken += 1;
      [step, at] = [lastMany + 1, taken];
    }
  }
  while (steps[step] === many) step += 1;
  return step === steps.length;
}

/** `*` and `?` match within one part of the path, `**` across parts. */
function partsOf(glob: string): Step<string>[] {
  const parts = glob.replace(/\\(.)/g, (escaped, character) => (character === "/" ? "/" : escaped)).split("/");
  const steps = parts.map((part) => (part === "**" ? many : nameStep(part)));
  // `dir/**` matches what is below the directory, not the directory itself.
  return parts.at(-1) === "**" ? [...steps, () => true] : steps;
}

function nameStep(part: string): (name: string) => boolean {
  if (!/[*?[\\]/.test(part)) return (name) => name === part;
  const steps: Step<string>[] = [];
  for (let rest = part; rest !== ""; ) {
    const [token, step] = firstStep(rest);
    steps.push(step);
    rest = rest.slice(token.length);
  }
  return (name) => takesAll(steps, name);
}

function firstStep(rest: string): [token: string, step: Step<string>] {
  const stars = /^\*+/.exec(rest)?.[0];
  if (stars !== undefined) return [stars, many];
  if (rest.startsWith("?")) return ["?", () => true];
  const set = /^\[([!^]?)(\]?[^\]]*)\]/.exec(rest);
  if (set !== null) return [set[0], setStep(set[1] !== "", set[2] ?? "")];
  const token = rest.startsWith("\\") && rest.length > 1 ? rest.slice(0, 2) : rest.charAt(0);
  const wanted = token.slice(-1);
  return [token, (character) => character === wanted];
}

function setStep(isNegated: boolean, members: string): (character: string) => boolean {
  try {
    const set = new RegExp(`[${isNegated ? "^" : ""}${members.replace(/[\\[\]]/g, "\\$&")}]`);
    return (character) => set.test(character);
  } catch {
    // A reversed range such as [z-a] matches nothing.
    return () => isNegated;
  }
}
