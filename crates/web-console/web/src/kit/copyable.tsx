import { t } from '../texts.ts'
import { Button } from './buttons.tsx'
import css from './controls.module.css'
import { say } from './toasts.tsx'

/** A text to take elsewhere. */
export function Copyable({ text }: { text: string }) {
  const copy = () => navigator.clipboard.writeText(text).then(() => say(t('copied')))
  return (
    <span className={css.copyable}>
      <code>{text}</code>
      <Button look="quiet" icon="copy" aria-label={t('copy')} onPress={() => void copy()} />
    </span>
  )
}
