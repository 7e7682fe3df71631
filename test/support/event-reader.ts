import http from "node:http";

export interface Message {
  id: string;
  event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape.
  data: any;
}

export interface EventReader {
  status: number;
  headers: http.IncomingHttpHeaders;
  /** Body of a response that is not a stream. */
  body: string;
  messages: Message[];
  /** Id of the last line read, including lines without data. */
  lastId: string;
  comments: number;
  isEnded: boolean;
  /** Stops reading from the socket, like a slow reader. */
  pause(): void;
  resume(): void;
  close(): void;
}

/** Reads server-sent events and exposes every detail. Written from the standard, independent of the code under test. */
export async function readEventStream(url: string, headers: Record<string, string>): Promise<EventReader> {
  const request = http.get(url, { headers: { accept: "text/event-stream", ...headers }, agent: false });
  const response = await new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once("response", resolve).once("error", reject);
  });
  const reader: EventReader = {
    status: response.statusCode ?? 0,
    headers: response.headers,
    body: "",
    messages: [],
    lastId: "",
    comments: 0,
    isEnded: false,
    pause: () => response.pause(),
    resume: () => response.resume(),
    close: () => request.destroy(),
  };
  let text = "";
  response.setEncoding("utf8");
  response.on("data", (chunk: string) => {
    if (!String(response.headers["content-type"]).startsWith("text/event-stream")) reader.body += chunk;
    text += chunk;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      take(reader, text.slice(0, end));
      text = text.slice(end + 2);
    }
  });
  response.on("error", () => {});
  response.on("close", () => {
    reader.isEnded = true;
  });
  request.on("error", () => {});
  return reader;
}

function take(reader: EventReader, block: string): void {
  let [event, data] = ["message", ""];
  for (const line of block.split("\n")) {
    if (line.startsWith(":")) reader.comments += 1;
    const [, field, value = ""] = /^(\w+)(?:: ?(.*))?$/.exec(line) ?? [];
    if (field === "id") reader.lastId = value;
    if (field === "event") event = value;
    if (field === "data") data += value;
  }
  if (data !== "") reader.messages.push({ id: reader.lastId, event, data: JSON.parse(data) });
}
