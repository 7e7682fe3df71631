import { type BuildLogLine, contextUnread } from "../../../contract/listeners/build-order.ts";

/** Lines kept for the message of a failed build. */
const lastLinesMax = 15;

/**
 * Turns the plain progress of BuildKit into lines of a build log: instructions as `> RUN …`, and what their programs print.
 * Lines of BuildKit itself (`#5 DONE 0.3s`, transfers, export) are dropped.
 */
export class BuildProgressReader {
  /** What each numbered step runs; null: a step of BuildKit itself. */
  readonly #steps = new Map<string, string | null>();
  #isInError = false;
  #lastLines: string[] = [];
  #failure: string | null = null;

  /** Returns the line as the log shows it; null: it is not shown. */
  read(line: BuildLogLine): BuildLogLine | null {
    const [, number, text = ""] = /^#(\d+) (.*)$/s.exec(line.message) ?? [];
    if (number === undefined) return this.#readOther(line);
    if (!this.#steps.has(number)) {
      const [, instruction] = /^\[(?:[\w.-]+ +)?\d+\/\d+\] (.*)$/s.exec(text) ?? [];
      this.#steps.set(number, instruction ?? null);
      if (instruction === undefined) return null;
      this.#lastLines = [];
      return { ...line, stream: "pierhead", message: `> ${instruction}` };
    }
    if (text.startsWith("ERROR: ")) this.#failure = text.slice("ERROR: ".length);
    const instruction = this.#steps.get(number);
    if (instruction == null) return null;
    if (text === "CACHED") return { ...line, stream: "pierhead", message: "  unchanged since an earlier build" };
    const [, output] = /^\d+\.\d+ (.*)$/s.exec(text) ?? [];
    return output === undefined ? null : this.#keep({ ...line, message: output });
  }

  /** Returns why the build failed, with the last lines of the step that did. */
  failure(): string {
    const why = this.#failure ?? "The image could not be built";
    const said = this.#lastLines.length === 0 ? "" : ` Last lines:\n${this.#lastLines.join("\n")}`;
    return `${why.replace(/\.$/, "")}.${said}`;
  }

  /** After its steps, BuildKit repeats the failed one between lines of dashes, and then names the cause. */
  #readOther(line: BuildLogLine): BuildLogLine | null {
    if (/^-{6}$/.test(line.message)) this.#isInError = true;
    const [, cause] = /^ERROR: (.*)$/.exec(line.message) ?? [];
    if (cause !== undefined) this.#failure ??= cause;
    const [, unread] = /^error: failed to solve: failed to read downloaded context: (.*)$/.exec(line.message) ?? [];
    if (unread !== undefined) {
      // The query of the URL permits the download.
      const why = unread.replace(/^failed to load cache key: /, "").replace(/\?[^\s"]*/, "");
      this.#failure = `${contextUnread} (${why}). Check that pods of builds reach its address, controlPlaneUrl in the chart`;
      return { ...line, stream: "pierhead", level: "ERROR", message: this.#failure };
    }
    if (line.message.startsWith("pierhead: ") || line.message.startsWith("error: ")) return { ...line, level: "ERROR" };
    // The client's own warnings are about the machine.
    const isOfClient = /^time="[^"]*" level=\w+ /.test(line.message);
    return this.#isInError || isOfClient || line.message.trim() === "" || cause !== undefined ? null : line;
  }

  #keep(line: BuildLogLine): BuildLogLine {
    this.#lastLines.push(line.message.slice(0, 400));
    if (this.#lastLines.length > lastLinesMax) this.#lastLines.shift();
    return line;
  }
}
