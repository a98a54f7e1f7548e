// Recovery codes: shown once, and renewed.

import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { invalidate } from '../../api/query.ts'
import { call } from '../../api/request.ts'
import { session } from '../../api/session.ts'
import { AskFirst } from '../../generic/ask-first.tsx'
import { saveAs } from '../../generic/save.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { copyText } from '../../kit/copyable.tsx'
import { Dialog } from '../../kit/dialogs.tsx'
import { t } from '../../texts.ts'
import { codesLeft, RECOVERY_CODES } from './own-factors.ts'
import look from './second-factors.module.css'

/** The number of codes from which on the console advises to renew them. */
const FEW = 3

/** Shows new codes. They are only in this dialog, so it must be answered. */
export function ShownCodes({ codes, onClose }: { codes: string[]; onClose: () => void }) {
  const text = codes.join('\n')
  const build = session()?.build ?? ''
  const download = () => saveAs(new Blob([`${text}\n`], { type: 'text/plain' }), `recovery-codes-${build}.txt`)
  return (
    <Dialog title={t('recovery-codes.shown')} isOpen mustBeAnswered onClose={onClose}>
      <p>{t('recovery-codes.shown.text')}</p>
      <ul className={look.codes} aria-label={t('recovery-codes')}>
        {codes.map((code) => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ul>
      <div className={css.actions}>
        <Button icon="copy" onPress={() => copyText(text)}>
          {t('recovery-codes.copy')}
        </Button>
        <Button icon="download" onPress={download}>
          {t('recovery-codes.download')}
        </Button>
      </div>
      <div className={css.actions}>
        <Button look="primary" onPress={onClose}>
          {t('recovery-codes.done')}
        </Button>
      </div>
    </Dialog>
  )
}

/** The number of codes that are left, with their renewal. For an account with a factor. */
export function RecoveryCodes() {
  const { data } = useQuery(codesLeft)
  const [isAsking, setIsAsking] = useState(false)
  const [codes, setCodes] = useState<string[] | undefined>()
  const renew = async () => {
    const answer = await call<{ recovery_codes: string[] }>('POST', RECOVERY_CODES)
    setIsAsking(false)
    setCodes(answer.data.recovery_codes)
    await invalidate(RECOVERY_CODES)
  }
  if (!data) return null
  return (
    <>
      <h3>{t('recovery-codes')}</h3>
      <p>{t('recovery-codes.left', { count: data.left })}</p>
      <p className={css.hint}>{t(data.left <= FEW ? 'recovery-codes.few' : 'recovery-codes.hint')}</p>
      <div>
        <Button onPress={() => setIsAsking(true)}>{t('recovery-codes.renew')}</Button>
      </div>
      {isAsking && (
        <AskFirst
          title={t('recovery-codes.question')}
          text={t('recovery-codes.question.text')}
          action={t('recovery-codes.renew')}
          run={renew}
          onClose={() => setIsAsking(false)}
        />
      )}
      {codes && <ShownCodes codes={codes} onClose={() => setCodes(undefined)} />}
    </>
  )
}
