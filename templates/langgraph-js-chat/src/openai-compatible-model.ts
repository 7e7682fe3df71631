import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { SimpleChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";

export interface Endpoint {
  apiKey: string;
  /** Up to and including the version, without a slash at its end: `https://api.openai.com/v1`. */
  baseUrl: string;
  model: string;
}

/** Any endpoint that speaks `POST /chat/completions`, by plain fetch. */
export class OpenAiCompatibleModel extends SimpleChatModel {
  readonly #endpoint: Endpoint;

  constructor(endpoint: Endpoint) {
    super({});
    this.#endpoint = endpoint;
  }

  _llmType(): string {
    return "openai-compatible";
  }

  async _call(messages: BaseMessage[], options: this["ParsedCallOptions"]): Promise<string> {
    let text = "";
    for await (const token of this.#tokens(messages, options.signal)) text += token;
    return text;
  }

  async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this["ParsedCallOptions"],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    for await (const text of this.#tokens(messages, options.signal)) {
      yield new ChatGenerationChunk({ text, message: new AIMessageChunk(text) });
      await runManager?.handleLLMNewToken(text);
    }
  }

  async *#tokens(messages: BaseMessage[], signal: AbortSignal | undefined): AsyncGenerator<string> {
    const { apiKey, baseUrl, model } = this.#endpoint;
    const response = await fetch(`${baseUrl}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
      body: JSON.stringify({ model, stream: true, messages: messages.map(toWire) }),
      signal: signal ?? null,
    });
    if (!response.ok || response.body === null) {
      throw new Error(`${baseUrl} answered ${response.status}: ${(await response.text()).slice(0, 500)}`);
    }
    for await (const data of serverSentEvents(response.body)) {
      if (data === "[DONE]") return;
      const token: unknown = JSON.parse(data).choices?.[0]?.delta?.content;
      if (typeof token === "string" && token !== "") yield token;
    }
  }
}

function toWire(message: BaseMessage): { role: string; content: string } {
  const roles: Record<string, string> = { human: "user", ai: "assistant", system: "system" };
  return { role: roles[message.type] ?? "user", content: message.text };
}

/** The data of each event; a chunk from the network may end anywhere. */
async function* serverSentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data:")) yield line.slice("data:".length).trim();
  }
}
