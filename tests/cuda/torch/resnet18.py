"""ResNet-18 of torchvision with random weights: one inference of a picture of 224 by 224 pixels."""

import inference


def make_net(torch):
    try:
        from torchvision.models import resnet18
    except ImportError as error:
        inference.fail("resnet18", f"torchvision: {error}")
    return resnet18(weights=None)


if __name__ == "__main__":
    inference.run("resnet18", make_net, (1, 3, 224, 224), (1, 1000))
