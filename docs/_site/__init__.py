"""The documentation as a site, with pictures made from the text of its pages: `make site`."""
