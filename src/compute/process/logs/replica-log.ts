import { appendFile } from "node:fs/promises";
import path from "node:path";
import type { ReplicaLogChunk } from "../../compute.ts";
import {
  findLogStream,
  type LogStream,
  readLastLines,
  readLogStream,
  rotateLog,
  segmentBytesMax,
  streamNames,
} from "./log-files.ts";

/** The output of one replica. Its size on disk is limited, and what was read once never changes. */
export class ReplicaLog {
  readonly #directory: string;
  readonly #keyPrefix: string;
  #streams: Promise<LogStream[]> | undefined;
  /** Serializes reading and rotating. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(directory: string, keyPrefix: string) {
    this.#directory = directory;
    this.#keyPrefix = keyPrefix;
  }

  /** Cuts streams that exceed their limit. */
  rotate(bytesMax = segmentBytesMax): Promise<void> {
    return this.#inTurn(async (streams) => {
      for (const stream of streams) await rotateLog(stream, bytesMax);
    });
  }

  /**
   * @param after cursor of an earlier call: `<offset in stdout>-<offset in stderr>`
   * @param options.isFinal the replica has exited, so unfinished last lines are complete
   */
  read(after: string | null, options: { bytesMax: number; isFinal: boolean }): Promise<ReplicaLogChunk> {
    return this.#inTurn(async (streams) => {
      const offsets = /^(\d+)-(\d+)$/
        .exec(after ?? "")
        ?.slice(1)
        .map(Number) ?? [0, 0];
      const share = { ...options, bytesMax: Math.ceil(options.bytesMax / streams.length), keyPrefix: this.#keyPrefix };
      const parts = [];
      for (const [index, stream] of streams.entries()) {
        parts.push(await readLogStream(stream, offsets[index] ?? 0, share));
      }
      return {
        lines: mergeByTime(parts.map((part) => part.lines)),
        cursor: parts.map((part) => part.next).join("-"),
      };
    });
  }

  /** Adds a line of this server to the output of the replica, which appends to the same file. */
  note(line: string): Promise<void> {
    return appendFile(path.join(this.#directory, "stdout.log"), `${line}\n`);
  }

  /** Returns the last lines of both streams, oldest first. */
  lastLines(linesMax: number): Promise<string[]> {
    return this.#inTurn((streams) => readLastLines(streams, linesMax));
  }

  #inTurn<T>(work: (streams: LogStream[]) => Promise<T>): Promise<T> {
    const next = this.#turn.then(async () => {
      this.#streams ??= Promise.all(streamNames.map((name) => findLogStream(this.#directory, name)));
      return work(await this.#streams);
    });
    this.#turn = next.catch(() => {});
    return next;
  }
}

type Lines = ReplicaLogChunk["lines"];

/** Merges two streams by time; the order within each stream stays. */
function mergeByTime([first = [], second = []]: Lines[]): Lines {
  const merged: Lines = [];
  let [i, j] = [0, 0];
  while (i < first.length || j < second.length) {
    const [a, b] = [first[i], second[j]];
    if (b === undefined || (a !== undefined && a.timestamp <= b.timestamp)) {
      if (a !== undefined) merged.push(a);
      i++;
    } else {
      merged.push(b);
      j++;
    }
  }
  return merged;
}
