import type { Terminal } from "./terminal.ts";
import { duration } from "./text.ts";

/** Steps on stderr, each with its duration. The running step is redrawn if the terminal allows it. */
export interface Steps {
  /** Finishes the running step and begins another. Steps in between are skipped. */
  begin(name: string): void;
  /** Sets the text next to the name of the running step. */
  note(text: string): void;
  finish(): void;
  fail(): void;
  /** Stops without marking the running step as finished or failed. */
  close(): void;
  elapsedMs(): number;
}

/** Pads notes so that the durations after them form a column. */
const noteWidth = 28;

const redrawIntervalMs = 200;

/** Without redrawing, a running step prints a line at this interval. */
const stillRunningMs = 30_000;

export function createSteps(terminal: Terminal, names: readonly string[]): Steps {
  const startedAt = performance.now();
  const width = Math.max(...names.map((name) => name.length));
  let running: { name: string; startedAt: number; note: string; saidAt: number } | undefined;
  let timer: NodeJS.Timeout | undefined;

  const text = (mark: string) => {
    if (running === undefined) return "";
    const time = duration(performance.now() - running.startedAt);
    // A line that wraps cannot be redrawn.
    const available = Math.max(0, terminal.width() - width - time.length - 6);
    const note = running.note.slice(0, available).padEnd(Math.min(available, noteWidth));
    return `${mark} ${running.name.padEnd(width)}  ${note} ${terminal.paintErr("dim", time)}`;
  };
  const draw = () => {
    if (running === undefined) return;
    if (terminal.isLive) return terminal.draw(text(terminal.paintErr("cyan", "·")));
    if (performance.now() - running.saidAt < stillRunningMs) return;
    running.saidAt = performance.now();
    terminal.say(text("·"));
  };
  const end = (mark: string) => {
    if (running === undefined) return;
    terminal.say(text(mark));
    close();
  };
  const close = () => {
    terminal.erase();
    running = undefined;
    clearInterval(timer);
  };

  return {
    begin(name) {
      if (running?.name === name) return;
      end(terminal.paintErr("green", "✓"));
      running = { name, startedAt: performance.now(), note: "", saidAt: performance.now() };
      timer = setInterval(draw, redrawIntervalMs).unref();
      draw();
    },
    note(note) {
      if (running !== undefined) running.note = note;
    },
    finish: () => end(terminal.paintErr("green", "✓")),
    fail: () => end(terminal.paintErr("red", "✗")),
    close,
    elapsedMs: () => performance.now() - startedAt,
  };
}
