import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { SimpleChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessageChunk, type BaseMessage } from "@langchain/core/messages";
import { ChatGenerationChunk } from "@langchain/core/outputs";

/** Replaces the model until a key is set. It streams word by word, so that clients can be developed against it. */
export class OfflineModel extends SimpleChatModel {
  _llmType(): string {
    return "offline";
  }

  async _call(messages: BaseMessage[]): Promise<string> {
    const asked = messages.findLast((message) => message.type === "human")?.text ?? "";
    return `I am answering offline, because OPENAI_API_KEY is not set. You wrote: "${asked}". Set the key as a secret of this deployment and ask again.`;
  }

  async *_streamResponseChunks(
    messages: BaseMessage[],
    _options: this["ParsedCallOptions"],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    for (const text of (await this._call(messages)).split(/(?<= )/)) {
      yield new ChatGenerationChunk({ text, message: new AIMessageChunk(text) });
      await runManager?.handleLLMNewToken(text);
    }
  }
}
