"""Who may ask for what: a site's rules about the annotations of pods.

`document` is the shape of the file, `compiled` turns it into `rules`, which are pure data;
`verdict` applies them to a pod's annotations; `rulebook` holds the rules in force, and `watch`
reads the file again when it changes.
"""
