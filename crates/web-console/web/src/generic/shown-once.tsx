// A secret of an answer, which is shown once.

import type { Fields } from '../api/shapes.ts'
import { Button } from '../kit/buttons.tsx'
import css from '../kit/controls.module.css'
import { Copyable } from '../kit/copyable.tsx'
import { Dialog } from '../kit/dialogs.tsx'
import { Moment } from '../kit/values.tsx'
import { t } from '../texts.ts'
import type { Secret } from './resource.ts'

export interface Shown extends Secret {
  value: string
  /** The end of the validity; undefined if it has none. */
  end: string | undefined
}

/** The secret of an answer; undefined if the answer has none. */
export function shownOnce(secret: Secret | undefined, answer: Fields | undefined): Shown | undefined {
  const value = secret && answer?.[secret.field]
  const end = secret?.until && answer?.[secret.until]
  if (!secret || typeof value !== 'string') return undefined
  return { ...secret, value, end: typeof end === 'string' ? end : undefined }
}

export function ShownOnce({ secret, onClose }: { secret: Shown; onClose: () => void }) {
  return (
    <Dialog title={t(secret.title)} isOpen mustBeAnswered onClose={onClose}>
      <p>{t(secret.text)}</p>
      <Copyable text={secret.value} />
      {secret.end && (
        <p>
          {t('secret.until')} <Moment value={secret.end} />
        </p>
      )}
      <div className={css.actions}>
        <Button look="primary" onPress={onClose}>
          {t('secret.done')}
        </Button>
      </div>
    </Dialog>
  )
}
