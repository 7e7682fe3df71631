import type { Terminal } from "./terminal.ts";
import { duration } from "./text.ts";

/** Numbered steps on stderr, each with its time; the running one is drawn over again where the terminal allows it. */
export interface Steps {
  /** Ends the running step and begins another; steps in between did not happen. */
  begin(name: string): void;
  /** What the running step shows beside its name. */
  note(text: string): void;
  finish(): void;
  fail(): void;
  /** Leaves the running step as it is. */
  close(): void;
  elapsedMs(): number;
}

/** Notes are short; the times behind them shall stand in one column. */
const noteWidth = 28;

const redrawIntervalMs = 200;

/** Where nothing can be drawn over, a long step says that it still runs. */
const stillRunningMs = 30_000;

export function createSteps(terminal: Terminal, names: readonly string[]): Steps {
  const startedAt = performance.now();
  const width = Math.max(...names.map((name) => name.length));
  let running: { name: string; startedAt: number; note: string; saidAt: number } | undefined;
  let timer: NodeJS.Timeout | undefined;

  const text = (mark: string) => {
    if (running === undefined) return "";
    const place = `${names.indexOf(running.name) + 1}/${names.length}`;
    const time = duration(performance.now() - running.startedAt);
    // A line that wraps cannot be drawn over again.
    const room = Math.max(0, terminal.width() - place.length - width - time.length - 7);
    const note = running.note.slice(0, room).padEnd(Math.min(room, noteWidth));
    return `${mark} ${terminal.paintErr("dim", place)} ${running.name.padEnd(width)}  ${note} ${terminal.paintErr("dim", time)}`;
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
