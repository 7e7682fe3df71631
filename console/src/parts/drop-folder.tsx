import { type DragEvent, useRef, useState } from "react";
import { filesOfDrop, filesOfInput, type SourceFile, withoutIgnored } from "../archive.ts";
import { useToasts } from "./toasts.tsx";

/** Accepts a folder, dropped or chosen. It leaves out files that do not belong to a source, and counts them. */
export function DropFolder({ files, onFiles }: { files: SourceFile[]; onFiles: (files: SourceFile[]) => void }) {
  const [isOver, setOver] = useState(false);
  const [leftOut, setLeftOut] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const { notifyError } = useToasts();
  const take = async (found: Promise<SourceFile[]>) => {
    try {
      const { kept, leftOut: ignored } = await withoutIgnored(await found);
      setLeftOut(ignored);
      onFiles(kept);
    } catch (error) {
      notifyError(error);
    }
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void take(filesOfDrop(event.dataTransfer.items));
  };
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the button inside does the same for the keyboard.
    <div
      className={isOver ? "drop over" : "drop"}
      onDrop={onDrop}
      onDragLeave={() => setOver(false)}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
    >
      <p>
        {files.length === 0
          ? "Drop the folder of your agent here, or"
          : `${files.length} files, ${Math.ceil(bytes / 1_024)} KiB.`}
      </p>
      <button type="button" onClick={() => input.current?.click()}>
        Choose a folder
      </button>
      <input
        ref={(element) => {
          input.current = element;
          element?.setAttribute("webkitdirectory", "");
        }}
        type="file"
        hidden
        multiple
        aria-label="Folder"
        onChange={(event) => event.target.files && void take(Promise.resolve(filesOfInput(event.target.files)))}
      />
      <p className="soft">
        Not uploaded: files that .gitignore or .dockerignore excludes, node_modules, and .env files.
        {leftOut > 0 && ` ${leftOut} files were left out.`}
      </p>
    </div>
  );
}
