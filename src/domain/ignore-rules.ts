/** Does a path, relative to the packed root and with `/` between its parts, stay out? */
export interface IgnoreRules {
  /** A rule file found in `directory` ("" is the root) applies to what lies below; later rules win. */
  add(directory: string, text: string, kind: "gitignore" | "dockerignore"): void;
  ignores(file: string, isDirectory: boolean): boolean;
  /** The same, where nobody walks down from ignored directories: the last word on the file or what is nearest above. */
  ignoresBelow(file: string, isDirectory: boolean): boolean;
  /** Nothing below this directory can be an exception: nobody has to look into it, who perhaps may not. */
  ignoresAllBelow(directory: string): boolean;
}

interface Rule {
  directory: string;
  parts: Step<string>[];
  isNegated: boolean;
  onlyDirectories: boolean;
}

/** The rules of .gitignore (gitignore(5)) and .dockerignore, which differ in what a pattern without a slash means. */
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
  // Trailing blanks do not count unless escaped.
  let text = line.replace(/(?<!\\)\s+$/, "");
  if (text === "" || text.startsWith("#")) return undefined;
  const isNegated = text.startsWith("!");
  if (isNegated) text = text.slice(1);
  const onlyDirectories = text.endsWith("/");
  text = text.replace(/\/+$/, "");
  // Git: a slash at the start or in the middle ties a pattern to its directory. Docker: every pattern is tied.
  const isAnchored = kind === "dockerignore" || text.includes("/");
  text = text.replace(/^(\.?\/)+/, "");
  if (text === "" || text === ".") return undefined;
  const parts: Step<string>[] = [...(isAnchored ? [] : [many]), ...partsOf(text)];
  // Docker names what it leaves out by prefix too: everything below goes with it, which the walk does for both.
  return { parts, isNegated, onlyDirectories: onlyDirectories && kind === "gitignore" };
}

/** What one name of a path may be, or one character of a name; or any number of whatever. */
type Step<Item> = ((item: Item) => boolean) | "many";
const many = "many" as const;

/**
 * Whether steps take all items, in their order. Only what the last `many` takes is tried anew: with another choice of one
 * before it, those after it would find no more than they did. So a pattern costs at most its length times that of the path,
 * where a regular expression tries all choices of all of them.
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

/** `*` and `?` stay inside one part of the path, `**` does not. */
function partsOf(glob: string): Step<string>[] {
  const parts = glob.replace(/\\(.)/g, (escaped, character) => (character === "/" ? "/" : escaped)).split("/");
  const steps = parts.map((part) => (part === "**" ? many : nameStep(part)));
  // What is below a directory is not the directory itself.
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
    // A range from z to a has nothing in it.
    return () => isNegated;
  }
}
