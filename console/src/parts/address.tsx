import { copyText } from "./copy-as.tsx";
import { useToasts } from "./toasts.tsx";

/** Where a deployment answers, to be opened or copied. */
export function Address({ url }: { url: string }) {
  const { say, fail } = useToasts();
  return (
    <>
      <a href={url} className="clip" rel="noreferrer">
        {url}
      </a>
      <button
        type="button"
        className="plain"
        onClick={() => void copyText(url).then(() => say("Address copied."), fail)}
      >
        Copy address
      </button>
    </>
  );
}
