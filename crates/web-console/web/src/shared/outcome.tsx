// The outcome of a test, with advice.

import look from '../generic/generic.module.css'
import css from '../kit/controls.module.css'
import { type Key, t } from '../texts.ts'
import { reasonOf } from './reasons.ts'

export function Outcome({ isGood, title, advice = [] }: { isGood: boolean; title: string; advice?: string[] }) {
  return (
    <div className={css.notice} data-tone={isGood ? 'ok' : 'danger'}>
      <p>{title}</p>
      {advice.length > 0 && (
        <ul className={look.problems}>
          {advice.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
    </div>
  )
}

/** The reason why a test of `kind` failed, and advice. */
export function Failed({ kind, message }: { kind: 'mail' | 'token'; message: string }) {
  const reason = reasonOf(message)
  if (!reason) return <Outcome isGood={false} title={message} />
  const advice = t(`${kind}.failed.${reason}.advice` as Key).split('\n')
  return <Outcome isGood={false} title={t(`${kind}.failed.${reason}` as Key)} advice={advice} />
}
