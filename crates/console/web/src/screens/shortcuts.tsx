import { useState } from 'react'
import look from '../generic/generic.module.css'
import css from '../kit/controls.module.css'
import { Dialog } from '../kit/dialogs.tsx'
import { shortcuts } from '../kit/keys.ts'
import { t } from '../texts.ts'

/** The keys that work on the page as it is. */
export default function Shortcuts({ onClose }: { onClose: () => void }) {
  const [list] = useState(() => shortcuts().filter(({ keys }) => keys !== undefined))
  return (
    <Dialog title={t('shortcuts')} isOpen onClose={onClose}>
      <dl className={`${look.facts} ${css.keys}`}>
        {list.map(({ keys, text }) => (
          <div key={`${keys} ${text}`} className={look.fact}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
