import { t } from '../texts.ts'
import { Button } from './buttons.tsx'
import css from './controls.module.css'
import { say } from './toasts.tsx'

/** Copies a text, and says so. Browsers have no clipboard for pages at an address with plain http. */
export function copyText(text: string) {
  const failed = () => say(t('copy.failed'), { isError: true })
  if (navigator.clipboard) void navigator.clipboard.writeText(text).then(() => say(t('copied')), failed)
  else failed()
}

/** A text to take elsewhere. `shown`: the same text in a form for readers. */
export function Copyable({ text, shown = text }: { text: string; shown?: string }) {
  return (
    <span className={css.copyable}>
      <code>{shown}</code>
      <Button look="quiet" icon="copy" aria-label={t('copy')} onPress={() => copyText(text)} />
    </span>
  )
}
