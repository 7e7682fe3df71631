/** Message of a stream of server-sent events. */
export interface StreamMessage {
  /** `message` when the server sent no type. */
  type: string;
  data: string;
  /** Position from which to continue after this message. */
  id: string;
}

/** The server sends a heartbeat every 15 s, so a connection that is silent for longer than this is dead. */
export const silenceMaxMs = 45_000;

/** No state of an agent is longer, and a server that sends no separator must not fill the memory. */
const blockLengthMax = 64 * 1024 * 1024;

/**
 * Yields the messages of an open stream (WHATWG HTML 9.2.6). A block without data is yielded with an empty `data`, because
 * it is a heartbeat and may carry a position (decision 0049).
 * @throws the errors of the transport, and an error after `silenceMs` without a byte or for a message of more than 64 Mi characters.
 */
export async function* readMessages(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
  lastId: string,
  silenceMs = silenceMaxMs,
): AsyncGenerator<StreamMessage, void, undefined> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let [text, id] = ["", lastId];
  try {
    for (;;) {
      const { done, value } = await withinSilence(reader, silenceMs);
      if (done) return;
      // Only the last characters of the old text can be part of a separator, so a long block is searched once.
      const searched = Math.max(0, text.length - 3);
      text += value;
      // A single CR at the end may be the first half of a CRLF.
      const [first = "", ...others] = text.slice(searched).split(/\r\n\r\n|\n\n|\r\r(?!$)/);
      if (others.length === 0) {
        if (text.length > blockLengthMax) throw new Error(`sent more than ${blockLengthMax} characters in one message`);
        continue;
      }
      const blocks = [text.slice(0, searched) + first, ...others];
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const message = messageOf(block, id);
        id = message.id;
        yield message;
      }
    }
  } finally {
    await reader.cancel().catch(() => {
      // The stream had already ended.
    });
  }
}

function messageOf(block: string, lastId: string): StreamMessage {
  const message: StreamMessage = { type: "message", data: "", id: lastId };
  const data: string[] = [];
  for (const line of block.split(/\r\n|\n|\r/)) {
    const [, field = "", value = ""] = /^([^:]+)(?:: ?(.*))?$/.exec(line) ?? [];
    if (field === "event") message.type = value;
    if (field === "id") message.id = value;
    if (field === "data") data.push(value);
  }
  return { ...message, data: data.join("\n") };
}

async function withinSilence(reader: ReadableStreamDefaultReader<string>, silenceMs: number) {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`silent for ${silenceMs / 1_000} s`)), silenceMs);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } finally {
    clearTimeout(timer);
  }
}
