import { t } from '../texts.ts'
import { Button } from './buttons.tsx'
import css from './controls.module.css'
import { say } from './toasts.tsx'

/** A text to take elsewhere. `shown`: the same text in a form for readers. */
export function Copyable({ text, shown = text }: { text: string; shown?: string }) {
  const copy = () => navigator.clipboard.writeText(text).then(() => say(t('copied')))
  return (
    <span className={css.copyable}>
      <code>{shown}</code>
      <Button look="quiet" icon="copy" aria-label={t('copy')} onPress={() => void copy()} />
    </span>
  )
}
