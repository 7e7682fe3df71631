/**
 * Reads a stream of bytes as UTF-8 text.
 * @param bytesMax longest accepted body; absent for trusted peers.
 * @throws TooLongError when the body is longer.
 */
export async function readText(body: AsyncIterable<Uint8Array>, bytesMax = Number.POSITIVE_INFINITY): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw new TooLongError(`the answer has more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

export class TooLongError extends Error {}
