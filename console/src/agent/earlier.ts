import { checkpointIdOf, type Message, messagesIn, type ThreadState } from "./types.ts";

/** Where a thread can go back to. */
export interface Earlier {
  /** Place of the message in the conversation. */
  at: number;
  /** The checkpoint before the input. null: the message is the first of its thread. */
  before: Record<string, unknown> | null;
  /** The checkpoint that has the input, but in which nothing ran yet. */
  input: Record<string, unknown>;
}

/** Returns the checkpoints around the input that brought a message. null: the history does not reach so far, or forks there. */
export function beforeMessage(states: readonly ThreadState[], message: Message): Earlier | null {
  if (message.id === undefined) return null;
  const placeIn = ({ values }: ThreadState) => messagesIn(values).findIndex(({ id }) => id === message.id);
  const first = states.findIndex((state) => placeIn(state) >= 0);
  const arrived = states[first];
  const input = states[first - 1];
  // The message is in the values of the checkpoint that follows its input.
  if (arrived === undefined || input?.metadata?.source !== "input") return null;
  const inputAt = checkpointOf(input);
  if (inputAt === null) return null;
  const before = states[first - 2];
  return { at: placeIn(arrived), before: before === undefined ? null : checkpointOf(before), input: inputAt };
}

function checkpointOf(state: ThreadState): Record<string, unknown> | null {
  const id = checkpointIdOf(state);
  return id === undefined ? null : { checkpoint_id: id, checkpoint_ns: "" };
}
