import { openSignIn } from '../../api/session.ts'
import { Button } from '../../kit/buttons.tsx'
import css from '../../kit/controls.module.css'
import { Dialog } from '../../kit/dialogs.tsx'
import { t } from '../../texts.ts'

/**
 * The dialog after the session ended elsewhere or by time. The page remains, and continues after a sign-in in another
 * window.
 */
export default function SessionOver() {
  return (
    <Dialog title={t('session.over')} isOpen mustBeAnswered onClose={() => {}}>
      <p>{t('session.over.text')}</p>
      <div className={css.actions}>
        <Button look="primary" autoFocus onPress={openSignIn}>
          {t('sign-in.again')}
        </Button>
      </div>
    </Dialog>
  )
}
