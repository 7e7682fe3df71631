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
  pattern: RegExp;
  isNegated: boolean;
  onlyDirectories: boolean;
}

/** The rules of .gitignore (gitignore(5)) and .dockerignore, which differ in what a pattern without a slash means. */
export function createIgnoreRules(): IgnoreRules {
  const rules: Rule[] = [];
  const lastWord = (file: string, isDirectory: boolean) =>
    rules.findLast(({ directory, pattern, onlyDirectories }) => {
      if (onlyDirectories && !isDirectory) return false;
      if (directory !== "" && !file.startsWith(`${directory}/`)) return false;
      return pattern.test(directory === "" ? file : file.slice(directory.length + 1));
    });
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
  const pattern = new RegExp(`^${isAnchored ? "" : "(?:.*/)?"}${globSource(text)}$`);
  // Docker names what it leaves out by prefix too: everything below goes with it, which the walk does for both.
  return { pattern, isNegated, onlyDirectories: onlyDirectories && kind === "gitignore" };
}

/** `*` and `?` stay inside one part of the path, `**` does not. */
function globSource(glob: string): string {
  let source = "";
  for (let at = 0; at < glob.length; at += 1) {
    const rest = glob.slice(at);
    const [token, translated] = translate(rest, source === "" || source.endsWith("/"));
    source += translated;
    at += token.length - 1;
  }
  return source;
}

function translate(rest: string, startsPart: boolean): [token: string, source: string] {
  if (startsPart && rest.startsWith("**/")) return ["**/", "(?:.*/)?"];
  if (startsPart && rest === "**") return ["**", ".*"];
  const stars = /^\*+/.exec(rest)?.[0];
  if (stars !== undefined) return [stars, "[^/]*"];
  if (rest.startsWith("?")) return ["?", "[^/]"];
  const set = /^\[([!^]?)(\]?[^\]]*)\]/.exec(rest);
  if (set !== null) return [set[0], `[${set[1] ? "^/" : ""}${(set[2] ?? "").replace(/[\\[\]]/g, "\\$&")}]`];
  if (rest.startsWith("\\") && rest.length > 1) return [rest.slice(0, 2), escapeLiteral(rest.charAt(1))];
  return [rest.charAt(0), escapeLiteral(rest.charAt(0))];
}

function escapeLiteral(character: string): string {
  return character.replace(/[\\^$.*+?()[\]{}|/-]/, "\\$&");
}
