import type { Socket } from "node:net";
import { encodeFrame, FrameReader, readFirstFrame } from "../../base/frames.ts";
import type { FoundReplica } from "../../compute/choose-replica.ts";
import { ExecRefused, type ExecSession } from "../../compute/compute.ts";
import { ProgramSocket } from "../../compute/program-socket.ts";
import {
  execChannels as channels,
  type ExecEnd,
  type ExecStart,
  type ExecStarted,
  execFrameBytesMax,
  type TerminalSize,
} from "../../contract/deployments/exec.ts";
import { execKeyCheckMs, execStartTimeoutMs } from "../../domain/limits.ts";

/**
 * Runs a program beside a replica for the control plane, on a tunnel that has just been opened. The control plane has admitted the
 * caller and recorded the program. The program ends with the tunnel. Resolves when both have ended.
 */
export async function serveProgram(socket: Socket, found: FoundReplica): Promise<void> {
  const { promise: closed, resolve } = Promise.withResolvers<void>();
  socket.once("close", () => resolve());
  const first = await readFirstFrame(socket, { bytesMax: execFrameBytesMax, timeoutMs: execStartTimeoutMs });
  if (first?.channel !== channels.start) return void socket.destroy();
  const { argv, terminal } = JSON.parse(first.payload.toString("utf8")) as ExecStart;
  const end = (answer: ExecEnd) => {
    if (!socket.writable) return;
    socket.write(encodeFrame(channels.end, JSON.stringify(answer)));
    socket.end();
    // Input that nothing reads any more is discarded: the kernel resets a connection with unread bytes, and output is lost.
    socket.resume();
  };
  let session: ExecSession;
  try {
    session = await found.start({ argv, terminal: terminal ?? null });
  } catch (error) {
    if (!(error instanceof ExecRefused)) throw error;
    return end({ exit_code: null, message: error.message });
  }
  const alive = setInterval(() => {
    if (socket.writableLength === 0 && socket.writable) socket.write(encodeFrame(channels.alive, ""));
  }, execKeyCheckMs);
  try {
    if (socket.destroyed) return;
    const program = new ProgramSocket(socket, session);
    const started: ExecStarted = { replica_id: found.replicaId, has_terminal: session.hasTerminal };
    socket.write(encodeFrame(channels.started, JSON.stringify(started)));
    read(socket, program);
    const exitCode = await Promise.race([program.copyOutput(), closed]);
    if (typeof exitCode === "number") end({ exit_code: exitCode, message: null });
  } catch (error) {
    if (!(error instanceof ExecRefused)) throw error;
    end({ exit_code: null, message: error.message });
  } finally {
    clearInterval(alive);
    await session.kill();
  }
}

function read(socket: Socket, program: ProgramSocket): void {
  const reader = new FrameReader(execFrameBytesMax);
  socket.on("end", () => socket.destroy());
  socket.on("data", (chunk: Buffer) => {
    try {
      for (const { channel, payload } of reader.read(chunk)) {
        if (channel === channels.input) program.input(payload);
        if (channel === channels.resize) void program.resize(JSON.parse(payload.toString("utf8")) as TerminalSize);
      }
    } catch {
      socket.destroy(); // what the control plane sent is wrong
    }
  });
  socket.resume();
}
